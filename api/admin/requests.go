package admin

import (
	"context"
	"net/url"
	"time"
)

// An ExchangeDetail is what only one exchange shows, and no list. Exchanges of older versions have none.
type ExchangeDetail struct {
	TraceID string `json:"trace_id,omitempty"`
	// Plan are the targets in their order, each "provider/model".
	Plan []string `json:"plan,omitempty"`
	// Limits are those under which the request was reserved.
	Limits []LimitHeld `json:"limits,omitempty"`
	// Guards is what guardrails have found, such as "mask pii/email in the request: 2".
	Guards []string `json:"guards,omitempty"`
	// Cache is the result of the response cache, such as "hit faq (90 s old, 0.0012 USD saved)".
	Cache string `json:"cache,omitempty"`
	// Policy is the rule that chose the model, such as "office/cheap instead of gpt-5".
	Policy string `json:"policy,omitempty"`
	// Dropped, Adjusted and UpstreamID are headers that the client got.
	Dropped    string `json:"dropped,omitempty"`
	Adjusted   string `json:"adjusted,omitempty"`
	UpstreamID string `json:"upstream_request_id,omitempty"`
	// HourWriteTokens are the part of CacheWriteTokens that was written for an hour.
	HourWriteTokens int64 `json:"cache_write_hour_tokens,omitempty"`
	// FeesUSD is the part of the cost that is of tools that the vendor ran.
	FeesUSD string `json:"fees_usd,omitempty"`
}

// A LimitHeld is a limit or a budget of a request. Amounts are in its measure: a number, or US dollars.
type LimitHeld struct {
	// Rule is named as in Exchange.RefusedBy.
	Rule     string `json:"rule"`
	Reserved string `json:"reserved"`
	Settled  string `json:"settled"`
}

// A CostSheet is how the cost of an exchange comes about.
type CostSheet struct {
	// Problem says why Lines are missing: the price has changed since, or is not known. It is empty if there are Lines.
	Problem string `json:"problem,omitempty"`
	// Lines add up to the cost.
	Lines []CostLine `json:"lines,omitempty"`
}

// A CostLine is one part of a cost.
type CostLine struct {
	// Part is input, cached input, cache write, cache write for an hour, input audio, output, reasoning, output audio,
	// image, tools, or factor: what the service tier or the batch API adds to the lines before, or takes off.
	Part string `json:"part"`
	// Count is of tokens or images.
	Count int64 `json:"count,omitempty"`
	// PriceUSD is the price of a million tokens, or of an image.
	PriceUSD string `json:"price_usd,omitempty"`
	CostUSD  string `json:"cost_usd"`
}

// Outcomes are the classes of the lines of the request log, by time.
type Outcomes struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Width is the length of a bucket in seconds.
	Width int64 `json:"width"`
	// Buckets are those with requests, in the order of time.
	Buckets []OutcomeBucket `json:"buckets"`
	// CountedFrom is set if there were too many requests to count: earlier ones are not counted.
	CountedFrom *time.Time `json:"counted_from,omitempty"`
}

// An OutcomeBucket is one bucket of Outcomes. Every line of the log is in one class.
type OutcomeBucket struct {
	Start     time.Time `json:"start"`
	Served    int64     `json:"served"`
	Errors    int64     `json:"errors"`    // requests for which Exchange.Failed is true
	Rejected  int64     `json:"rejected"`  // by the provider, or refused by the gateway
	Cancelled int64     `json:"cancelled"` // by the client
}

// Classes of Outcomes, which the filter outcome also takes.
const (
	OutcomeServed    = "served"
	OutcomeError     = "error"
	OutcomeRejected  = "rejected"
	OutcomeCancelled = "cancelled"
)

// Requests returns a part of the request log, newest first. A page of a search may have fewer items than asked for, or
// none, and still a Next: it has looked at as many requests as one page may.
//
// The filters are start and end (Unix seconds), organization, project, key, key_name (words in the name, the id or the
// end of the key), model, provider, operation, user, outcome (also one of the classes of [Outcomes]), status,
// min_cost_usd, min_duration_ms, refused_by (its beginning), rule (a rule of a guardrail or of a policy that has found
// something, or all of such an object) and request_id (also the id of an exchange).
func (c RequestCalls) Requests(ctx context.Context, o ListOptions) (Page[Exchange], error) {
	return get[Page[Exchange]](ctx, c.caller, "requests"+o.query())
}

// Request returns an exchange with its attempts, details and cost sheet, by its id.
func (c RequestCalls) Request(ctx context.Context, id string) (Exchange, error) {
	return get[Exchange](ctx, c.caller, "requests/"+url.PathEscape(id))
}

// Outcomes counts the request log. It takes the filters of Requests, and width: the seconds of a bucket.
func (c RequestCalls) Outcomes(ctx context.Context, o ListOptions) (Outcomes, error) {
	return get[Outcomes](ctx, c.caller, "outcomes"+o.query())
}
