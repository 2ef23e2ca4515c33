// Package turn has requests wait until the provider of their first attempt takes another request.
package turn

import (
	"context"
	"errors"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/limit"
)

type filter struct{ *call.Call }

// New returns the filter of a planned request; nil if it has a place.
func New(a *account.Account) call.Filter {
	if !a.Call.Full {
		return nil
	}
	return filter{a.Call}
}

// Request implements call.Filter.
func (f filter) Request(ctx context.Context) *call.Reply {
	if wait := f.Queue(); wait != nil {
		return wait
	}
	switch err := f.Active.Wait(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, limit.ErrFull), errors.Is(err, routing.ErrWaited):
		return f.Refuse(call.Overloaded(), "mg_overloaded")
	}
	return call.Left()
}
