// Package door refuses requests before their bodies are read, under the limits that do not depend on the body.
package door

import (
	"context"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
)

type filter struct{ account *account.Account }

// New returns the filter of a request.
func New(a *account.Account) call.Filter { return filter{a} }

// Request implements call.Filter.
func (f filter) Request(ctx context.Context) *call.Reply {
	e := f.account.Enter(ctx, f.account.PreBodyRules())
	if e == nil {
		return nil
	}
	return f.account.Call.Refuse(e, "mg_limited")
}
