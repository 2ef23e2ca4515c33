// Package acme is the filter of the recipe's test. It refuses requests for anvils.
package acme

import (
	"context"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
)

type filter struct{ account *account.Account }

// New returns the filter of a request; nil if it is not for an anvil.
func New(a *account.Account) call.Filter {
	if !strings.HasSuffix(a.Call.Request.Model, "anvil") {
		return nil
	}
	return filter{a}
}

// Request implements call.Filter.
func (f filter) Request(ctx context.Context) *call.Reply {
	return f.account.RejectBody(ctx, openai.CodePolicyDenied.New("There is no anvil."), "mg_acme")
}
