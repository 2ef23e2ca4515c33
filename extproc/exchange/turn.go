package exchange

import (
	"context"
	"errors"

	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/limit"
)

// Turn is called after a reply with Queue. It waits for checkers, then for an answer from the cache, then until the
// provider of the first attempt takes another request, and returns the reply, or Queue for the next of these. The
// context ends when the client leaves.
func (x *Exchange) Turn(ctx context.Context) Reply {
	switch x.state {
	case awaitGuards:
		return x.guardInTurn(ctx)
	case awaitChecks:
		return x.check(ctx)
	case awaitCached:
		a, v := x.cached.Wait(ctx)
		if reply, done := x.recalled(ctx, a, v); done {
			return reply
		}
		return x.goOn(ctx)
	}
	reply := *x.queued
	x.queued = nil
	switch err := x.c.Active.Wait(ctx); {
	case err == nil:
		return x.sendOut(reply)
	case errors.Is(err, limit.ErrFull), errors.Is(err, routing.ErrWaited):
		return x.c.Reject(call.Overloaded(), "mg_overloaded")
	}
	return Reply{Wait: true} // the client has left
}
