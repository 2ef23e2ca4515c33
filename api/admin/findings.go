package admin

import (
	"context"
)

// Findings sums up the findings of rules in the latest requests. It takes the filters of Requests, width (the
// seconds of a bucket) and action.
func (c RequestCalls) Findings(ctx context.Context, o ListOptions) (Findings, error) {
	return get[Findings](ctx, c.caller, "findings"+o.query())
}
