package exchange

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/limit"
)

// preBodyRules returns the rules that do not depend on the request's body.
func (x *Exchange) preBodyRules() *access.Rules { return x.rulesOfKey().Always() }

// rulesOfKey returns the rules for the requests of the key that are for no model.
func (x *Exchange) rulesOfKey() *access.Rules {
	return x.c.Derived().Rules.Rules(x.c.Key, "", "", "")
}

// enter admits a request under rules that are known before its body, or returns the refusal.
func (x *Exchange) enter(ctx context.Context, set *access.Rules) *openai.Error {
	c := &x.charging
	if x.c.Env.Limits == nil || len(set.Rules) == 0 {
		return nil
	}
	by, kept := x.c.Env.Door.Enter(set, x.c.Record.Start)
	if by < 0 {
		c.entered, c.waiting = set, true
		return nil
	}
	if states, err := x.c.Env.Limits.Peek(ctx, set.Rules); err == nil {
		x.tellLimits(set, limit.Decision{States: states, Refused: by})
	}
	c.rules = set
	decided := limit.Decision{Refused: by, States: make([]limit.State, len(set.Rules))}
	if set.Rules[by].Limit > 0 {
		decided.RetryAfter = kept.Until.Sub(x.c.Record.Start)
		decided.States[by].Reset = decided.RetryAfter
	}
	wanted := limit.Amounts{}
	wanted[set.Rules[by].Measure] = kept.Wanted
	return x.refused(wanted, decided)
}

// leaveRequests ends the door's count of the request under limits of requests. From now on the store counts it, or
// nobody does.
func (x *Exchange) leaveRequests() {
	if c := &x.charging; c.waiting {
		c.waiting = false
		x.c.Env.Door.Leave(c.entered, limit.Requests)
	}
}

// leave ends every count of the door for the request.
func (x *Exchange) leave() {
	x.leaveRequests()
	if c := &x.charging; c.entered != nil {
		x.c.Env.Door.Leave(c.entered, limit.Concurrency)
		c.entered = nil
	}
}

// rejectBody refuses a request because of its body. The request counts towards the limits of requests, because reading
// the body took work. When the limit is reached, later requests are refused before their bodies are read.
func (x *Exchange) rejectBody(ctx context.Context, e *openai.Error, details string) Reply {
	c := &x.charging
	if c.entered != nil && e.Status < http.StatusInternalServerError {
		c.counted = 1
		if set := c.entered.Only(limit.Requests); c.held == nil && len(set.Rules) > 0 {
			c.rules = set
			_, _ = x.take(ctx, limit.Amounts{limit.Requests: c.counted}) // the client gets the error of the body in any case
		}
	}
	return x.c.Reject(e, details)
}
