package exchange

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/limit"
)

// known returns the rules that hold for whatever the client asks.
func (x *Exchange) known() *access.Rules {
	return x.env.derived(x.config).rules.Rules(x.key, "", "", "")
}

// enter lets a request in under rules that are known before its body, or returns why not.
func (x *Exchange) enter(ctx context.Context, set *access.Rules) *openai.Error {
	c := &x.charging
	if x.env.Limits == nil || len(set.Rules) == 0 {
		return nil
	}
	by, kept := x.env.door.Enter(set, x.record.Start)
	if by < 0 {
		c.entered, c.waiting = set, true
		return nil
	}
	if states, err := x.env.Limits.Peek(ctx, set.Rules); err == nil {
		c.told = set.Tell(limit.Decision{States: states, Refused: by})
	}
	c.rules = set
	decided := limit.Decision{Refused: by, States: make([]limit.State, len(set.Rules))}
	if set.Rules[by].Limit > 0 {
		decided.RetryAfter = kept.Until.Sub(x.record.Start)
		decided.States[by].Reset = decided.RetryAfter
	}
	wanted := limit.Amounts{}
	wanted[set.Rules[by].Measure] = kept.Wanted
	return x.refused(wanted, decided)
}

// decided has the door no longer count the request in limits of requests: the store does, or will not.
func (x *Exchange) decided() {
	if c := &x.charging; c.waiting {
		c.waiting = false
		x.env.door.Leave(c.entered, limit.Requests)
	}
}

// leave has the door forget a request that has ended.
func (x *Exchange) leave() {
	x.decided()
	if c := &x.charging; c.entered != nil {
		x.env.door.Leave(c.entered, limit.Concurrency)
		c.entered = nil
	}
}

// mistake refuses a request for what its body says, and counts it: reading it was work. Where that is one too many,
// the next are kept out before they are read.
func (x *Exchange) mistake(ctx context.Context, e *openai.Error, details string) Reply {
	c := &x.charging
	if c.entered != nil && e.Status < http.StatusInternalServerError {
		c.counted = 1
		if set := c.entered.Only(limit.Requests); c.held == nil && len(set.Rules) > 0 {
			c.rules = set
			_, _ = x.take(ctx, limit.Amounts{limit.Requests: c.counted}) // the client hears of its mistake in any case
		}
	}
	return x.reject(e, details)
}
