package account

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/limit"
)

// PreBodyRules returns the rules that do not depend on the request's body.
func (a *Account) PreBodyRules() *access.Rules { return a.Call.RulesOfKey().Always() }

// Enter admits a request under rules that are known before its body, or returns the refusal.
func (a *Account) Enter(ctx context.Context, set *access.Rules) *openai.Error {
	if a.Call.Env.Limits == nil || len(set.Rules) == 0 {
		return nil
	}
	by, kept := a.Call.Env.Door.Enter(set, a.Call.Record.Start)
	if by < 0 {
		a.entered, a.waiting = set, true
		return nil
	}
	if states, err := a.Call.Env.Limits.Peek(ctx, set.Rules); err == nil {
		a.tellLimits(set, limit.Decision{States: states, Refused: by})
	}
	a.Rules = set
	decided := limit.Decision{Refused: by, States: make([]limit.State, len(set.Rules))}
	if set.Rules[by].Limit > 0 {
		decided.RetryAfter = kept.Until.Sub(a.Call.Record.Start)
		decided.States[by].Reset = decided.RetryAfter
	}
	wanted := limit.Amounts{}
	wanted[set.Rules[by].Measure] = kept.Wanted
	return a.RefusedBy(set, wanted, decided)
}

// leaveRequests ends the door's count of the request under limits of requests. From now on the store counts it, or
// nobody does.
func (a *Account) leaveRequests() {
	if a.waiting {
		a.waiting = false
		a.Call.Env.Door.Leave(a.entered, limit.Requests)
	}
}

// Leave ends every count of the door for the request.
func (a *Account) Leave() {
	a.leaveRequests()
	if a.entered != nil {
		a.Call.Env.Door.Leave(a.entered, limit.Concurrency)
		a.entered = nil
	}
}

// CountRefused counts a request that is refused because of its body towards the limits of requests, because reading
// the body took work. When the limit is reached, later requests are refused before their bodies are read.
func (a *Account) CountRefused(ctx context.Context, e *openai.Error) {
	if a.entered == nil || e.Status >= http.StatusInternalServerError {
		return
	}
	a.counted = 1
	if set := a.entered.Only(limit.Requests); a.held == nil && len(set.Rules) > 0 {
		a.Rules = set
		_, _ = a.take(ctx, limit.Amounts{limit.Requests: a.counted}) // the client gets the error of the body in any case
	}
}

// RejectBody refuses a request because of its body. It counts towards the limits of requests.
func (a *Account) RejectBody(ctx context.Context, e *openai.Error, details string) *call.Reply {
	a.CountRefused(ctx, e)
	return a.Call.Refuse(e, details)
}
