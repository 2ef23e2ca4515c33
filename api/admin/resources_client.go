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

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	err := c.call(ctx, request{method: http.MethodGet, path: path}, &out)
	return out, err
}

func post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var out T
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	err = c.call(ctx, request{method: http.MethodPost, path: path, body: body}, &out)
	return out, err
}

// ListPage returns a part of the objects of a kind, sorted by name.
func (c *Client) ListPage(ctx context.Context, kind configv1.Kind, o ListOptions) (ItemPage, error) {
	return get[ItemPage](ctx, c, kind.Plural+o.query())
}

// Create stores an object that is not there yet, and returns it as it is then. The error is a 409 where it is there.
func (c *Client) Create(ctx context.Context, o configv1.Object) (Item, error) {
	body, err := configv1.MarshalJSON(o)
	if err != nil {
		return Item{}, err
	}
	return post[Item](ctx, c, configv1.KindOf(o).Plural, json.RawMessage(body))
}

// RotateKey makes a key in the place of another, which keeps its id.
func (c *Client) RotateKey(ctx context.Context, id string, r RotateRequest) (NewKey, error) {
	return post[NewKey](ctx, c, "keys/"+url.PathEscape(id)+"/rotate", r)
}

// KeyConsumption returns what of a key's limits and budgets is used.
func (c *Client) KeyConsumption(ctx context.Context, id string) (Consumption, error) {
	return get[Consumption](ctx, c, "keys/"+url.PathEscape(id)+"/consumption")
}

// CreateToken makes a token of the admin API. It cannot be shown again.
func (c *Client) CreateToken(ctx context.Context, r TokenRequest) (NewToken, error) {
	return post[NewToken](ctx, c, "admintokens", r)
}

// TestProvider asks a provider with its credential.
func (c *Client) TestProvider(ctx context.Context, name string) (ProviderTest, error) {
	return post[ProviderTest](ctx, c, "providers/"+url.PathEscape(name)+"/test", struct{}{})
}

// Summary returns what happened. The filters are start and end (Unix seconds), organization, project, key, model,
// provider.
func (c *Client) Summary(ctx context.Context, o ListOptions) (Summary, error) {
	return get[Summary](ctx, c, "summary"+o.query())
}

// Audit returns a part of the audit log, newest first. The filters are actor, kind, name, action, start and end.
func (c *Client) Audit(ctx context.Context, o ListOptions) (Page[AuditEntry], error) {
	return get[Page[AuditEntry]](ctx, c, "audit"+o.query())
}

// VerifyAudit reads the whole audit log and says whether it is what was written. Head is the hash of a head that is to
// be in it; empty: none.
func (c *Client) VerifyAudit(ctx context.Context, head string) (AuditVerification, error) {
	o := ListOptions{Filters: map[string]string{"head": head}}
	return get[AuditVerification](ctx, c, "audit/verify"+o.query())
}

// Usage returns the JSON of OpenAI's usage and cost endpoints over all tenants. Resource is completions, embeddings,
// ..., or costs; query is theirs.
func (c *Client) Usage(ctx context.Context, resource string, query url.Values) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "usage/"+url.PathEscape(resource)+"?"+query.Encode())
}

// DataPlane returns the state of what serves traffic.
func (c *Client) DataPlane(ctx context.Context) (DataPlane, error) {
	return get[DataPlane](ctx, c, "dataplane")
}

// Batches returns the batches of all tenants, newest first.
func (c *Client) Batches(ctx context.Context, o ListOptions) (Page[TenantObject], error) {
	return get[Page[TenantObject]](ctx, c, "batches"+o.query())
}

// Batch returns one, with its cost.
func (c *Client) Batch(ctx context.Context, id string) (BatchDetails, error) {
	return get[BatchDetails](ctx, c, "batches/"+url.PathEscape(id))
}

// BatchFailures returns some failed requests of a batch: while it runs the newest, later the first.
func (c *Client) BatchFailures(ctx context.Context, id string) (Page[BatchFailure], error) {
	return get[Page[BatchFailure]](ctx, c, "batches/"+url.PathEscape(id)+"/failures")
}

// CancelBatch asks for the end of a batch.
func (c *Client) CancelBatch(ctx context.Context, id string) (TenantObject, error) {
	return post[TenantObject](ctx, c, "batches/"+url.PathEscape(id)+"/cancel", nil)
}

// FineTuningJobs returns the fine-tuning jobs of all tenants, newest first.
func (c *Client) FineTuningJobs(ctx context.Context, o ListOptions) (Page[TenantObject], error) {
	return get[Page[TenantObject]](ctx, c, "fine_tuning/jobs"+o.query())
}

// Quotas returns what tenants keep at the job service of what they may. The filters are organization, project and key.
func (c *Client) Quotas(ctx context.Context, o ListOptions) (Page[TenantQuotas], error) {
	return get[Page[TenantQuotas]](ctx, c, "quotas"+o.query())
}

// FineTuningJob returns one.
func (c *Client) FineTuningJob(ctx context.Context, id string) (TenantObject, error) {
	return get[TenantObject](ctx, c, "fine_tuning/jobs/"+url.PathEscape(id))
}

// FineTuningEvents returns the events of a job, newest first, as the clients' API shows them; with metrics where the
// provider reports them.
func (c *Client) FineTuningEvents(ctx context.Context, id string, o ListOptions) (Page[json.RawMessage], error) {
	return get[Page[json.RawMessage]](ctx, c, "fine_tuning/jobs/"+url.PathEscape(id)+"/events"+o.query())
}
