package account

import (
	"cmp"
	"context"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

// Expect stores what a request to the targets of its plan may use, and the rules that are for it.
func (a *Account) Expect(d metering.Demand) {
	d.User = cmp.Or(a.Call.Record.User, d.User) // a verified one goes before what the request says
	a.Demand, a.in = d, a.Call.Derived()
	a.Call.Record.User = d.User
	a.Rules = a.in.Rules.Rules(a.Call.Key, d.User, a.Call.Record.Model,
		a.Call.Active.Targets[0].Provider.Config.GetName()).For(a.Call.Fits)
}

// ExpectHit stores what a request uses that is answered from a cache, and the rules that are for it. It counts as a
// request, and uses no tokens and no money.
func (a *Account) ExpectHit(user string, takesTime bool) {
	r := &a.Call.Record
	r.User = cmp.Or(r.User, user)
	a.in = a.Call.Derived()
	a.Rules = a.in.Rules.Rules(a.Call.Key, r.User, r.Model, "").For(a.Call.Fits)
	a.hit = &hit{measures: []limit.Measure{limit.Requests}, wanted: limit.Amounts{limit.Requests: 1}}
	if takesTime {
		a.hit.measures, a.hit.wanted[limit.Concurrency] = append(a.hit.measures, limit.Concurrency), 1
	}
}

// A hit is what a request uses that is answered from a cache.
type hit struct {
	measures []limit.Measure
	wanted   limit.Amounts
}

// Wanted returns what a demand takes of the limits of a set, at the targets of the plan.
func (a *Account) Wanted(d *metering.Demand, set *access.Rules) limit.Amounts {
	return Amounts(d, a.in, set, a.Call.Active.Targets, a.Call.Record.Start)
}

// Reserve reserves the expected usage of a request under the rules that are for it, or returns the refusal.
func (a *Account) Reserve(ctx context.Context) *openai.Error {
	set := a.Rules
	switch {
	case len(set.Rules) == 0 || a.Call.Env.Limits == nil:
		return nil
	case a.hit != nil:
		return a.reserveHit(ctx)
	}
	wanted := a.Wanted(&a.Demand, set)
	decided, err := a.take(ctx, wanted)
	// only a part of the limit is available in this process
	if err == nil && decided.Refused >= 0 && decided.RetryAfter == 0 && a.Demand.Output < 0 {
		wanted[limit.Tokens] -= wanted[limit.OutputTokens]
		wanted[limit.OutputTokens] = 0
		decided, err = a.take(ctx, wanted)
	}
	a.Call.Record.Rules, a.Call.Record.Reserved = set.Names, wanted
	return a.Refusal(wanted, decided, err)
}

// ReserveKnown reserves what a request uses that asks no provider. The door has admitted it if its body was read.
func (a *Account) ReserveKnown(ctx context.Context, set *access.Rules, wanted limit.Amounts) *openai.Error {
	if a.Call.Env.Limits == nil || len(set.Rules) == 0 {
		return nil
	}
	if a.entered == nil {
		if e := a.Enter(ctx, set); e != nil {
			return e
		}
	}
	return a.reserveOnly(ctx, set, wanted)
}

// reserveHit reserves what a request uses that is answered from a cache, of all the rules that are for it.
func (a *Account) reserveHit(ctx context.Context) *openai.Error {
	all := a.Rules
	set := all.Only(a.hit.measures...)
	if len(set.Rules) == 0 {
		return nil
	}
	e := a.reserveOnly(ctx, set, a.hit.wanted)
	a.Call.Record.Rules, a.Call.Record.Reserved = set.Names, a.hit.wanted
	if e == nil {
		a.Rules = all
	}
	return e
}

func (a *Account) reserveOnly(ctx context.Context, set *access.Rules, wanted limit.Amounts) *openai.Error {
	a.Rules, a.counted = set, wanted[limit.Requests]
	decided, err := a.take(ctx, wanted)
	return a.Refusal(wanted, decided, err)
}

// Fits checks that amounts can be reserved under rules, and reserves nothing.
func (a *Account) Fits(ctx context.Context, set *access.Rules, wanted limit.Amounts) *openai.Error {
	a.Rules = set
	decided, err := a.take(ctx, wanted)
	if e := a.Refusal(wanted, decided, err); e != nil {
		return e
	}
	if held := a.held; held != nil {
		a.held = nil
		held.Settle(limit.Amounts{})
	}
	return nil
}

// take reserves amounts under the rules of the exchange until it ends.
func (a *Account) take(ctx context.Context, wanted limit.Amounts) (limit.Decision, error) {
	decided, err := a.Call.Env.Limits.Reserve(ctx,
		limit.Demand{ID: a.Call.Record.ID, Rules: a.Rules.Rules, Amounts: wanted})
	a.leaveRequests()
	if err != nil {
		return decided, err
	}
	if a.entered != nil {
		a.Call.Env.Door.Learn(a.entered, a.Rules, wanted, decided, a.Call.Env.Now())
	}
	a.held = decided.Reservation
	a.tellLimits(a.Rules, decided)
	return decided, nil
}

// tellLimits sets the headers that report limits to the client.
func (a *Account) tellLimits(set *access.Rules, decided limit.Decision) {
	told := set.Headers(decided)
	if form := a.Call.Dialect.LimitHeader; form != nil {
		now := a.Call.Env.Now()
		for i := range told {
			told[i].Name, told[i].Value = form(told[i].Name, told[i].Value, now)
		}
	}
	a.Call.LimitHeaders = told
}

// Refusal returns the error of a decision for the client, or nil if the request was admitted.
func (a *Account) Refusal(wanted limit.Amounts, decided limit.Decision, err error) *openai.Error {
	switch {
	case err != nil:
		return openai.CodeLimitsUnavailable.New("The gateway cannot check the limits of your key at the moment. Please retry.").After(time.Second)
	case decided.Degraded && a.Call.Env.Observer != nil:
		a.Call.Env.Observer.Degraded()
	}
	if decided.Refused >= 0 {
		return a.RefusedBy(a.Rules, wanted, decided)
	}
	return nil
}

// RefusedBy returns the client's error for a request that one of rules refuses.
func (a *Account) RefusedBy(set *access.Rules, wanted limit.Amounts, d limit.Decision) *openai.Error {
	rule, of := &set.Rules[d.Refused], &set.Scopes[d.Refused]
	if a.Call.Env.Observer != nil {
		a.Call.Env.Observer.Refused(rule.Measure.String(), of.Kind)
	}
	r := access.Refusal{Rule: rule, Of: of, Model: a.Call.Record.Model, Organization: a.Call.Key.Organization,
		Wanted: wanted[rule.Measure], Left: d.States[d.Refused].Remaining, Now: a.Call.Record.Start}
	a.Call.Record.RefusedBy = r.By()
	if rule.Measure == limit.Cost {
		return r.BudgetError(d.States[d.Refused].Reset, d.RetryAfter)
	}
	if d.Degraded && d.RetryAfter == 0 && r.Wanted <= rule.Limit {
		return r.RateError(time.Second) // of the whole limit, it can be admitted once the store is back
	}
	return r.RateError(d.RetryAfter)
}
