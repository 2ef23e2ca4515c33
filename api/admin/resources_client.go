package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func (o ListOptions) query() string {
	q := url.Values{}
	for name, value := range o.Filters {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.After != "" {
		q.Set("after", o.After)
	}
	if o.Limit != 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Query != "" {
		q.Set("q", o.Query)
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func get[T any](ctx context.Context, c *caller, path string) (T, error) {
	var out T
	err := c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

func post[T any](ctx context.Context, c *caller, path string, in any) (T, error) {
	var out T
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	err = c.call(ctx, request{method: http.MethodPost, path: path, body: body}, &out)
	return out, err
}

// ListPage returns a part of the objects of a kind, sorted by name.
func (c ObjectCalls) ListPage(ctx context.Context, kind configv1.Kind, o ListOptions) (ItemPage, error) {
	return get[ItemPage](ctx, c.caller, kind.Plural+o.query())
}

// Create stores an object that is not there yet, and returns it as it is then. The error is a 409 if it is there.
func (c ObjectCalls) Create(ctx context.Context, o configv1.Object) (Item, error) {
	body, err := configv1.MarshalJSON(o)
	if err != nil {
		return Item{}, err
	}
	return post[Item](ctx, c.caller, configv1.KindOf(o).Plural, json.RawMessage(body))
}

// RotateKey makes a key in the place of another, which keeps its id.
func (c ObjectCalls) RotateKey(ctx context.Context, id string, r RotateRequest) (NewKey, error) {
	return post[NewKey](ctx, c.caller, "keys/"+url.PathEscape(id)+"/rotate", r)
}

// KeyConsumption returns what of a key's limits and budgets is used.
func (c ObjectCalls) KeyConsumption(ctx context.Context, id string) (Consumption, error) {
	return get[Consumption](ctx, c.caller, "keys/"+url.PathEscape(id)+"/consumption")
}

// CreateToken makes a token of the admin API. It cannot be shown again.
func (c ObjectCalls) CreateToken(ctx context.Context, r TokenRequest) (NewToken, error) {
	return post[NewToken](ctx, c.caller, "admintokens", r)
}

// TestProvider asks a provider with its credential.
func (c ObjectCalls) TestProvider(ctx context.Context, name string) (ProviderTest, error) {
	return post[ProviderTest](ctx, c.caller, "providers/"+url.PathEscape(name)+"/test", struct{}{})
}

// Summary returns what happened. The filters are start and end (Unix seconds), organization, project, key, model,
// provider.
func (c UsageCalls) Summary(ctx context.Context, o ListOptions) (Summary, error) {
	return get[Summary](ctx, c.caller, "summary"+o.query())
}

// Audit returns a part of the audit log, newest first. The filters are actor, kind, name, action, start and end.
func (c StateCalls) Audit(ctx context.Context, o ListOptions) (Page[AuditEntry], error) {
	return get[Page[AuditEntry]](ctx, c.caller, "audit"+o.query())
}

// VerifyAudit reads the whole audit log and says whether it is unchanged. Head is the hash of an earlier head that
// the log must contain. It may be empty.
func (c StateCalls) VerifyAudit(ctx context.Context, head string) (AuditVerification, error) {
	o := ListOptions{Filters: map[string]string{"head": head}}
	return get[AuditVerification](ctx, c.caller, "audit/verify"+o.query())
}

// Usage returns the JSON of OpenAI's usage and cost endpoints over all tenants. Resource is completions, embeddings,
// ..., or costs; query is theirs.
func (c UsageCalls) Usage(ctx context.Context, resource string, query url.Values) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c.caller, "usage/"+url.PathEscape(resource)+"?"+query.Encode())
}

// DataPlane returns the state of what serves traffic.
func (c StateCalls) DataPlane(ctx context.Context) (DataPlane, error) {
	return get[DataPlane](ctx, c.caller, "dataplane")
}

// Batches returns the batches of all tenants, newest first.
func (c JobCalls) Batches(ctx context.Context, o ListOptions) (Page[TenantObject], error) {
	return get[Page[TenantObject]](ctx, c.caller, "batches"+o.query())
}

// Batch returns one, with its cost.
func (c JobCalls) Batch(ctx context.Context, id string) (BatchDetails, error) {
	return get[BatchDetails](ctx, c.caller, "batches/"+url.PathEscape(id))
}

// BatchFailures returns some failed requests of a batch: while it runs the newest, later the first.
func (c JobCalls) BatchFailures(ctx context.Context, id string) (Page[BatchFailure], error) {
	return get[Page[BatchFailure]](ctx, c.caller, "batches/"+url.PathEscape(id)+"/failures")
}

// CancelBatch asks for the end of a batch.
func (c JobCalls) CancelBatch(ctx context.Context, id string) (TenantObject, error) {
	return post[TenantObject](ctx, c.caller, "batches/"+url.PathEscape(id)+"/cancel", nil)
}

// FineTuningJobs returns the fine-tuning jobs of all tenants, newest first.
func (c JobCalls) FineTuningJobs(ctx context.Context, o ListOptions) (Page[TenantObject], error) {
	return get[Page[TenantObject]](ctx, c.caller, "fine_tuning/jobs"+o.query())
}

// Quotas returns how much tenants use of their quotas at the job service. It takes the filters organization,
// project and key.
func (c JobCalls) Quotas(ctx context.Context, o ListOptions) (Page[TenantQuotas], error) {
	return get[Page[TenantQuotas]](ctx, c.caller, "quotas"+o.query())
}

// FineTuningJob returns one.
func (c JobCalls) FineTuningJob(ctx context.Context, id string) (TenantObject, error) {
	return get[TenantObject](ctx, c.caller, "fine_tuning/jobs/"+url.PathEscape(id))
}

// FineTuningEvents returns the events of a job, newest first, as the clients' API shows them; with metrics where the
// provider reports them.
func (c JobCalls) FineTuningEvents(ctx context.Context, id string, o ListOptions) (Page[json.RawMessage], error) {
	return get[Page[json.RawMessage]](ctx, c.caller, "fine_tuning/jobs/"+url.PathEscape(id)+"/events"+o.query())
}
