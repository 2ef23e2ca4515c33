// Package limits reserves the expected usage of planned requests under limits and budgets. It refuses requests that do
// not fit, and those whose usage could not be counted.
package limits

import (
	"context"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
)

type filter struct{ account *account.Account }

// New returns the filter of a planned request; nil if it has no key, because the job service sends it for itself.
func New(a *account.Account) call.Filter {
	if a.Call.Key == nil {
		return nil
	}
	return filter{a}
}

// Request implements call.Filter.
func (f filter) Request(ctx context.Context) *call.Reply {
	if e := f.account.Reserve(ctx); e != nil {
		return f.account.Call.Refuse(e, "mg_limited")
	}
	if e, details := f.account.Unmetered(); e != nil {
		return f.account.RejectBody(ctx, e, details)
	}
	return nil
}
