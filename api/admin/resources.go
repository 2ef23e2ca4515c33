package admin

import (
	"encoding/json"
	"strconv"
	"time"
)

// A RotateRequest asks for a key in the place of another.
type RotateRequest struct {
	// Grace is how long the old one stays good, in seconds. 0: it stops working at once. At most 30 days.
	Grace int64 `json:"grace_seconds,omitempty"`
}

// A TokenRequest asks for a token of the admin API.
type TokenRequest struct {
	DisplayName string     `json:"display_name"`
	Scopes      []string   `json:"scopes"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	// IdentityProvider is the one whose SCIM client the token is for. It goes with the scope scim.
	IdentityProvider string `json:"identity_provider,omitempty"`
	// Organization and Project restrict the token to a tenant; they may be empty.
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`
}

// A NewToken is a token at the only time at which it is shown.
type NewToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// Consumption is the used part of a key's limits and budgets, as far as the ledger knows: it lacks exchanges that
// have not ended, and those of the last second or two.
type Consumption struct {
	Limits  []LimitUse  `json:"limits"`
	Budgets []BudgetUse `json:"budgets"`
	// LastUsed is when the key was last used; nil if it never was.
	LastUsed *time.Time `json:"last_used,omitempty"`
}

// A LimitUse is one limit that holds for a key.
type LimitUse struct {
	// Scope is the object that sets the limit: key/<id>, organization/<name>, project/<organization>/<project>.
	Scope  string `json:"scope"`
	Domain string `json:"domain"`
	Unit   string `json:"unit,omitempty"` // minute, hour, day
	Model  string `json:"model,omitempty"`
	Limit  int64  `json:"limit"`
	// Used is the amount in the window that ends now. Of concurrency it is not known and absent.
	Used *int64 `json:"used,omitempty"`
}

// A BudgetUse is one budget. Amounts are decimals in US dollars.
type BudgetUse struct {
	Scope string `json:"scope"`
	// DisplayName is the owner's name for people. It may be empty.
	DisplayName string `json:"display_name,omitempty"`
	Unit        string `json:"unit"` // day, month
	USD         string `json:"usd"`
	Spent       string `json:"spent_usd"`
	// Forecast is what will be spent when the period ends: what is spent, and for the rest of the period as much a day as
	// in the last 7 days and today.
	Forecast string    `json:"forecast_usd,omitempty"`
	Resets   time.Time `json:"resets_at"`
}

// Percent returns how much of the budget an amount is, such as Spent or Forecast.
func (b BudgetUse) Percent(amount string) int {
	whole, errWhole := strconv.ParseFloat(b.USD, 64)
	part, errPart := strconv.ParseFloat(amount, 64)
	switch {
	case errWhole != nil || errPart != nil || part <= 0:
		return 0
	case whole <= 0:
		return 100
	}
	return int(min(100*part/whole, 1e6))
}

// A Summary is what happened in a time.
type Summary struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Totals
	// Hours are the same by hour, oldest first, empty ones too.
	Hours []SummaryHour `json:"hours"`
	// Models and Providers are the most expensive ones, at most 10.
	Models    []NamedTotals `json:"models"`
	Providers []NamedTotals `json:"providers"`
}

// Totals are sums over exchanges.
type Totals struct {
	Requests     int64  `json:"requests"`
	Errors       int64  `json:"errors"`       // requests for which Exchange.Failed is true
	InputTokens  int64  `json:"input_tokens"` // includes CachedTokens
	CachedTokens int64  `json:"cached_tokens,omitempty"`
	OutputTokens int64  `json:"output_tokens"`
	CostUSD      string `json:"cost_usd"`
	// Milliseconds from the request to the end of the answer, of finished exchanges.
	LatencyP50 int64 `json:"latency_p50_ms"`
	LatencyP95 int64 `json:"latency_p95_ms"`
}

// A SummaryHour is an hour of a Summary.
type SummaryHour struct {
	Start time.Time `json:"start"`
	Totals
}

// NamedTotals are the totals of something.
type NamedTotals struct {
	Name string `json:"name"`
	Totals
}

// An Exchange is a line of the request log.
type Exchange struct {
	ID           string    `json:"id"`
	RequestID    string    `json:"request_id"`
	Start        time.Time `json:"start"`
	DurationMS   int64     `json:"duration_ms"`
	FirstByteMS  int64     `json:"first_byte_ms,omitempty"`
	Key          string    `json:"key"`
	KeyName      string    `json:"key_name,omitempty"` // as it is now; empty if the key is gone or has none
	Organization string    `json:"organization,omitempty"`
	Project      string    `json:"project,omitempty"`
	User         string    `json:"user,omitempty"`
	Operation    string    `json:"operation"`
	Model        string    `json:"model"`
	Provider     string    `json:"provider"`
	Upstream     string    `json:"upstream_model"`
	Attempts     int       `json:"attempts"`
	Stream       bool      `json:"stream"`
	Status       int       `json:"status"`
	Outcome      string    `json:"outcome"`
	ErrorCode    string    `json:"error_code,omitempty"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	CachedTokens int64     `json:"cached_tokens,omitempty"`
	Estimated    bool      `json:"estimated,omitempty"`
	CostUSD      string    `json:"cost_usd"`
	Priced       bool      `json:"priced"`
	PriceVersion string    `json:"price_version,omitempty"`
	Batch        bool      `json:"batch,omitempty"`    // charged at the price of the vendor's batch API
	Requests     int64     `json:"requests,omitempty"` // exchanges in the record; a vendor's batch has more than 1

	CacheWriteTokens  int64 `json:"cache_write_tokens,omitempty"`
	InputAudioTokens  int64 `json:"input_audio_tokens,omitempty"`
	ReasoningTokens   int64 `json:"reasoning_tokens,omitempty"`
	OutputAudioTokens int64 `json:"output_audio_tokens,omitempty"`
	Images            int64 `json:"images,omitempty"`

	// RefusedBy names the part of the gateway that refused the request, such as "key/key_1 limit requests per
	// minute". It is empty if none did.
	RefusedBy string `json:"refused_by,omitempty"`
	// KeyHint are the last characters of a key that is not known.
	KeyHint string `json:"key_hint,omitempty"`
	// AttemptList are the attempts, oldest first. Lists leave it out.
	AttemptList []Attempt `json:"attempt_list,omitempty"`
	// Detail and Cost are set for a single exchange. Lists leave them out.
	Detail *ExchangeDetail `json:"detail,omitempty"`
	Cost   *CostSheet      `json:"cost,omitempty"`
}

// A Page is a part of a list, with what asks for the next.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the value of the query parameter after that asks for what follows; empty if nothing does.
	Next string `json:"next,omitempty"`
	// SearchedTo is the time that a search has come back to, if it has looked at as many items as one page may. Next
	// goes on from there.
	SearchedTo *time.Time `json:"searched_to,omitempty"`
}

// An AuditEntry is one thing that somebody did.
type AuditEntry struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Actor is the account or the token that did it.
	Actor   string `json:"actor"`
	Role    string `json:"role,omitempty"`
	Address string `json:"address"`
	// Action is create, update, delete, rotate, sign_in, sign_in_failed, sign_out, ...
	Action string `json:"action"`
	Kind   string `json:"kind,omitempty"`
	Name   string `json:"name,omitempty"`
	// Diff is a unified diff of the object as YAML, secrets masked.
	Diff      string `json:"diff,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	// Sequence is the place of the entry in the chain of all entries, from 1. An entry outside the chain has none of
	// these.
	Sequence int64 `json:"sequence,omitempty"`
	// Previous is the hash of the entry before. Hash is over it and everything else in the entry.
	Previous string `json:"previous,omitempty"`
	Hash     string `json:"hash,omitempty"`
	// Tenants are those whose people see the entry, and how. They are outside the chain: the hash does not cover
	// them, and no answer contains them.
	Tenants []AuditTenant `json:"tenants,omitempty"`
}

// An AuditTenant is how people of an organization, or of a project, see an entry.
type AuditTenant struct {
	// Tenant is "organization" or "organization/project".
	Tenant string `json:"tenant"`
	// Inside is true if the actor acted within the tenant. Of anybody else its people learn nothing.
	Inside bool `json:"inside,omitempty"`
	// Partial is true if they see the object, or one of its states, in part or not at all. Diff is then what they see.
	Partial bool   `json:"partial,omitempty"`
	Diff    string `json:"diff,omitempty"`
	// Action takes the place of the entry's: join or leave, of an object that came from outside or went there.
	Action string `json:"action,omitempty"`
}

// ActorOutside replaces the actor of an entry, for people of a tenant, if the actor acted from outside the tenant.
const ActorOutside = "(outside)"

// For returns the entry as people of a tenant see it. It has nothing by which the entries of others could be counted.
func (e AuditEntry) For(t AuditTenant) AuditEntry {
	e.Sequence, e.Previous, e.Hash, e.Tenants = 0, "", "", nil
	if !t.Inside {
		e.Actor, e.Role, e.Address, e.RequestID = ActorOutside, "", "", ""
	}
	if t.Partial {
		e.Diff = t.Diff
	}
	if t.Action != "" {
		e.Action = t.Action
	}
	return e
}

// An AuditVerification says whether the audit log is unchanged.
type AuditVerification struct {
	// Intact is true if the chain has no break, no entry is outside it that should be in it, and a head that was asked
	// for is in it.
	Intact bool `json:"intact"`
	// Entries counts all entries that were read, and Chained those in the chain. Vouched entries were written while
	// etcd was full, and an entry of the chain has their hash.
	Entries int64 `json:"entries"`
	Chained int64 `json:"chained"`
	Vouched int64 `json:"vouched"`
	// Outside counts entries that should be in the chain but are not. FirstOutside is the id of one.
	Outside      int64  `json:"outside"`
	FirstOutside string `json:"first_outside,omitempty"`
	// First and Last are the sequences of the oldest and the newest entry of the chain; the chain is whole from First on.
	First   int64      `json:"first"`
	FirstAt *time.Time `json:"first_at,omitempty"`
	Last    int64      `json:"last"`
	// Head is the hash of the newest entry by the key in etcd, and HeadSequence its sequence.
	Head         string `json:"head"`
	HeadSequence int64  `json:"head_sequence"`
	// Break is the first; nil: there is none.
	Break *AuditBreak `json:"break,omitempty"`
	// Noted is about the head that was asked for.
	Noted *NotedHead `json:"noted,omitempty"`
}

// An AuditBreak is where the chain of the audit log is not what was written.
type AuditBreak struct {
	// Kind is missing, changed, inserted or head.
	Kind     string `json:"kind"`
	Sequence int64  `json:"sequence"`
	// ID of the entry, if there is one.
	ID      string `json:"id,omitempty"`
	Message string `json:"message"`
}

// A NotedHead is the hash of a head of the audit log that somebody noted, and where in the chain it is.
type NotedHead struct {
	Hash     string `json:"hash"`
	Found    bool   `json:"found"`
	Sequence int64  `json:"sequence,omitempty"`
}

// HealthOK is how a client of the data plane stands that has what is published.
const HealthOK = "ok"

// A DataPlaneClient is an Envoy, an ext_proc service or a job service that is connected to this control plane.
type DataPlaneClient struct {
	Node string `json:"node"`
	Role string `json:"role"` // envoy, extproc, jobs
	// Version of the program, such as 1.40.0.
	Version string `json:"version,omitempty"`
	// Revision of the configuration that it has acknowledged whole.
	Revision    int64     `json:"revision"`
	ConnectedAt time.Time `json:"connected_at"`
	// Health is ok, or what is wrong: behind, refused.
	Health string `json:"health"`
	Error  string `json:"error,omitempty"`
}

// DataPlane is the state of what serves traffic.
type DataPlane struct {
	// Revision of the configuration that is published.
	Revision int64             `json:"revision"`
	Clients  []DataPlaneClient `json:"clients"`
	// Version of this control plane.
	Version string `json:"version"`
}

// A ProviderTest is what came of asking a provider with its credential.
type ProviderTest struct {
	OK bool `json:"ok"`
	// Message says what was found or what is wrong, without secrets.
	Message   string `json:"message"`
	Status    int    `json:"status,omitempty"`
	LatencyMS int64  `json:"latency_ms"`
	Models    int    `json:"models,omitempty"`
	// Operations are the operations that the vendor's servers may have. The list is empty if the credential does
	// not work, and for vendors with paths of their own.
	Operations []OperationTest `json:"operations,omitempty"`
}

// An OperationTest says whether a provider has an operation.
type OperationTest struct {
	Name string `json:"name"`
	// Configured means that the gateway sends such requests there.
	Configured bool           `json:"configured"`
	State      OperationState `json:"state"`
	Status     int            `json:"status,omitempty"`
}

// An OperationState is how a server answered an empty request.
type OperationState string

// The states of operations.
const (
	OperationAnswers OperationState = "answers"
	OperationMissing OperationState = "missing"
	OperationUnknown OperationState = "unknown"
)

// A TenantObject is a batch or a fine-tuning job of any tenant, with whose it is.
type TenantObject struct {
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`
	Key          string `json:"key,omitempty"`
	// Object is as the clients' API shows it.
	Object json.RawMessage `json:"object"`
}

// A BatchDetails is a batch of any tenant, with the cost of its requests.
type BatchDetails struct {
	TenantObject
	// Cost is absent if the ledger is unavailable.
	Cost *BatchCost `json:"cost,omitempty"`
}

// A BatchCost is the cost of the answered requests of a batch, as the ledger knows it.
type BatchCost struct {
	// Requests counts the requests in the ledger, which gets them a few seconds after their end.
	Requests int64 `json:"requests"`
	// Unpriced counts the requests of models without a price.
	Unpriced int64 `json:"unpriced,omitempty"`
	// USD is a decimal.
	USD string `json:"usd"`
}

// A BatchFailure is a request of a batch that has failed, without its content.
type BatchFailure struct {
	CustomID  string `json:"custom_id"`
	Status    int    `json:"status,omitempty"` // 0: there was no response
	RequestID string `json:"request_id,omitempty"`
	ErrorCode string `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
}

// TenantQuotas are what an organization, a project of it, or a key without an organization keeps at the job service.
type TenantQuotas struct {
	Organization string     `json:"organization,omitempty"`
	Project      string     `json:"project,omitempty"`
	Key          string     `json:"key,omitempty"`
	Quotas       []QuotaUse `json:"quotas"`
}

// Owner says whose quotas they are, such as "Project acme/web".
func (q TenantQuotas) Owner() string {
	switch {
	case q.Project != "":
		return "Project " + q.Organization + "/" + q.Project
	case q.Organization != "":
		return "Organization " + q.Organization
	}
	return "Key " + q.Key
}

// A QuotaUse is a quota and what is used of it.
type QuotaUse struct {
	Name  string `json:"name"`
	Used  int64  `json:"used"`
	Limit int64  `json:"limit"`
}

// Percent is the used part.
func (q QuotaUse) Percent() int64 { return 100 * q.Used / max(q.Limit, 1) }

// ListOptions choose a part of a list.
type ListOptions struct {
	After string // Next of the page before
	Limit int    // 0: the server's choice
	// Query are words that items must contain, in their names or, of keys, display names and hints.
	Query string
	// Filters are other query parameters, such as organization.
	Filters map[string]string
}

// An ItemPage is a part of the objects of a kind.
type ItemPage = Page[Item]

// LongestSummary is the longest time that usage is summed up of at once.
const LongestSummary = 31 * 24 * time.Hour
