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

// Expect stores what a request to the targets of its plan may use, and returns the rules that may be for it.
func (a *Account) Expect(d metering.Demand) *access.Rules {
	d.User = cmp.Or(a.c.Record.User, d.User) // a verified one goes before what the request says
	a.Demand, a.in = d, a.c.Derived()
	a.c.Record.User = d.User
	return a.in.Rules.Rules(a.c.Key, d.User, a.c.Record.Model, a.c.Active.Targets[0].Provider.Config.GetName())
}

// Wanted returns what a demand takes of the limits of a set, at the targets of the plan.
func (a *Account) Wanted(d *metering.Demand, set *access.Rules) limit.Amounts {
	return Amounts(d, a.in, set, a.c.Active.Targets)
}

// Reserve reserves the expected usage of a request under the rules that are for it, or returns the refusal.
func (a *Account) Reserve(ctx context.Context, set *access.Rules) *openai.Error {
	a.Rules = set
	if len(set.Rules) == 0 || a.c.Env.Limits == nil {
		return nil
	}
	wanted := a.Wanted(&a.Demand, set)
	decided, err := a.take(ctx, wanted)
	// only a part of the limit is available in this process
	if err == nil && decided.Refused >= 0 && decided.RetryAfter == 0 && a.Demand.Output < 0 {
		wanted[limit.Tokens] -= wanted[limit.OutputTokens]
		wanted[limit.OutputTokens] = 0
		decided, err = a.take(ctx, wanted)
	}
	a.c.Record.Rules, a.c.Record.Reserved = set.Names, wanted
	return a.Refusal(wanted, decided, err)
}

// ReserveKnown reserves what a request uses that asks no provider. The door has admitted it if its body was read.
func (a *Account) ReserveKnown(ctx context.Context, set *access.Rules, wanted limit.Amounts) *openai.Error {
	if a.c.Env.Limits == nil || len(set.Rules) == 0 {
		return nil
	}
	if a.entered == nil {
		if e := a.Enter(ctx, set); e != nil {
			return e
		}
	}
	return a.reserveOnly(ctx, set, wanted)
}

// ReserveHit reserves what a request uses that is answered from a cache, of all the rules that are for it.
func (a *Account) ReserveHit(ctx context.Context, all *access.Rules, measures []limit.Measure,
	wanted limit.Amounts) *openai.Error {
	a.in = a.c.Derived()
	if set := all.Only(measures...); a.c.Env.Limits != nil && len(set.Rules) > 0 {
		e := a.reserveOnly(ctx, set, wanted)
		a.c.Record.Rules, a.c.Record.Reserved = set.Names, wanted
		if e != nil {
			return e
		}
	}
	a.Rules = all
	return nil
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
	decided, err := a.c.Env.Limits.Reserve(ctx, limit.Demand{ID: a.c.Record.ID, Rules: a.Rules.Rules, Amounts: wanted})
	a.leaveRequests()
	if err != nil {
		return decided, err
	}
	if a.entered != nil {
		a.c.Env.Door.Learn(a.entered, a.Rules, wanted, decided, a.c.Env.Now())
	}
	a.held = decided.Reservation
	a.tellLimits(a.Rules, decided)
	return decided, nil
}

// tellLimits sets the headers that report limits to the client.
func (a *Account) tellLimits(set *access.Rules, decided limit.Decision) {
	told := set.Headers(decided)
	if form := a.c.Dialect.LimitHeader; form != nil {
		now := a.c.Env.Now()
		for i := range told {
			told[i].Name, told[i].Value = form(told[i].Name, told[i].Value, now)
		}
	}
	a.c.LimitHeaders = told
}

// Refusal returns the error of a decision for the client, or nil if the request was admitted.
func (a *Account) Refusal(wanted limit.Amounts, decided limit.Decision, err error) *openai.Error {
	switch {
	case err != nil:
		return openai.CodeLimitsUnavailable.New("The gateway cannot check the limits of your key at the moment. Please retry.").After(time.Second)
	case decided.Degraded && a.c.Env.Observer != nil:
		a.c.Env.Observer.Degraded()
	}
	if decided.Refused >= 0 {
		return a.RefusedBy(a.Rules, wanted, decided)
	}
	return nil
}

// RefusedBy returns the client's error for a request that one of rules refuses.
func (a *Account) RefusedBy(set *access.Rules, wanted limit.Amounts, d limit.Decision) *openai.Error {
	rule, of := &set.Rules[d.Refused], &set.Scopes[d.Refused]
	if a.c.Env.Observer != nil {
		a.c.Env.Observer.Refused(rule.Measure.String(), of.Kind)
	}
	r := access.Refusal{Rule: rule, Of: of, Model: a.c.Record.Model, Organization: a.c.Key.Organization,
		Wanted: wanted[rule.Measure], Left: d.States[d.Refused].Remaining, Now: a.c.Record.Start}
	a.c.Record.RefusedBy = r.By()
	if rule.Measure == limit.Cost {
		return r.BudgetError(d.States[d.Refused].Reset, d.RetryAfter)
	}
	if d.Degraded && d.RetryAfter == 0 && r.Wanted <= rule.Limit {
		return r.RateError(time.Second) // of the whole limit, it can be admitted once the store is back
	}
	return r.RateError(d.RetryAfter)
}
