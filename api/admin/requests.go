package admin

import (
	"context"
	"net/url"
)

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
