package exchange

import (
	"cmp"
	"context"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/internal/usage"
)

// charging is the expected and the actual usage of an exchange. The zero value is for an exchange without limits.
type charging struct {
	in           *call.Derived
	demand       metering.Demand
	rules        *access.Rules
	held         limit.Reservation // nil: no rule applies
	entered      *access.Rules     // rules under which the door admitted the request; nil: not inside
	waiting      bool              // the door counts the request under limits of requests
	counted      int64             // requests to charge if no provider has seen the request
	limitHeaders Headers           // x-ratelimit-*
	sent         bool              // the request was sent to a provider
	begun        bool              // a provider has answered with a status of success
	refused      bool              // a provider has answered with another status
	billed       bool              // the answer cannot be used, but is billed
	opaque       bool              // the answer of a Route cannot be read
	wantsCost    bool              // the client wants to know the cost
	tier         string            // service tier that the answer reports
	tally        metering.Tally    // tools that the vendor has run
	received     int64             // shown bytes of the answer
	said         bool              // an answer that passes has content
	unanswered   bool              // a provider has got the request, and Envoy has given up waiting for its answer
	text         metering.Text
}

// reserve reserves the expected usage of a request, or returns the refusal.
func (x *Exchange) reserve(ctx context.Context, d metering.Demand) *openai.Error {
	c, targets := &x.charging, x.c.Active.Targets
	d.User = cmp.Or(x.c.Record.User, d.User) // a verified one goes before what the request says
	c.demand, c.in = d, x.c.Derived()
	x.c.Record.User = d.User
	c.rules = x.rulesFor(c.in.Rules.Rules(x.c.Key, d.User, x.c.Record.Model, targets[0].Provider.Config.GetName()))
	if len(c.rules.Rules) == 0 || x.c.Env.Limits == nil {
		return nil
	}
	wanted := amounts(&d, c.in, c.rules, targets)
	decided, err := x.take(ctx, wanted)
	// only a part of the limit is available in this process
	if err == nil && decided.Refused >= 0 && decided.RetryAfter == 0 && d.Output < 0 {
		wanted[limit.Tokens] -= wanted[limit.OutputTokens]
		wanted[limit.OutputTokens] = 0
		decided, err = x.take(ctx, wanted)
	}
	x.c.Record.Rules, x.c.Record.Reserved = c.rules.Names, wanted
	return x.refusal(wanted, decided, err)
}

// take reserves amounts under the rules of the exchange until it ends.
func (x *Exchange) take(ctx context.Context, wanted limit.Amounts) (limit.Decision, error) {
	c := &x.charging
	decided, err := x.c.Env.Limits.Reserve(ctx, limit.Demand{ID: x.c.Record.ID, Rules: c.rules.Rules, Amounts: wanted})
	x.leaveRequests()
	if err != nil {
		return decided, err
	}
	if c.entered != nil {
		x.c.Env.Door.Learn(c.entered, c.rules, wanted, decided, x.c.Env.Now())
	}
	c.held = decided.Reservation
	x.tellLimits(c.rules, decided)
	return decided, nil
}

// tellLimits sets the headers that report limits to the client.
func (x *Exchange) tellLimits(set *access.Rules, decided limit.Decision) {
	told := set.Headers(decided)
	if form := x.c.Dialect.LimitHeader; form != nil {
		now := x.c.Env.Now()
		for i := range told {
			told[i].Name, told[i].Value = form(told[i].Name, told[i].Value, now)
		}
	}
	x.c.LimitHeaders = told
}

// refusal returns the error of a decision for the client, or nil if the request was admitted.
func (x *Exchange) refusal(wanted limit.Amounts, decided limit.Decision, err error) *openai.Error {
	switch {
	case err != nil:
		return openai.CodeLimitsUnavailable.New("The gateway cannot check the limits of your key at the moment. Please retry.").After(time.Second)
	case decided.Degraded && x.c.Env.Observer != nil:
		x.c.Env.Observer.Degraded()
	}
	if decided.Refused >= 0 {
		return x.refused(wanted, decided)
	}
	return nil
}

// refused returns the client's error for a request that a rule refuses.
func (x *Exchange) refused(wanted limit.Amounts, d limit.Decision) *openai.Error {
	return x.refusedBy(x.charging.rules, wanted, d)
}

func (x *Exchange) refusedBy(set *access.Rules, wanted limit.Amounts, d limit.Decision) *openai.Error {
	rule, of := &set.Rules[d.Refused], &set.Scopes[d.Refused]
	if x.c.Env.Observer != nil {
		x.c.Env.Observer.Refused(rule.Measure.String(), of.Kind)
	}
	r := access.Refusal{Rule: rule, Of: of, Model: x.c.Record.Model, Organization: x.c.Key.Organization,
		Wanted: wanted[rule.Measure], Left: d.States[d.Refused].Remaining, Now: x.c.Record.Start}
	x.c.Record.RefusedBy = r.By()
	if rule.Measure == limit.Cost {
		return r.BudgetError(d.States[d.Refused].Reset, d.RetryAfter)
	}
	if d.Degraded && d.RetryAfter == 0 && r.Wanted <= rule.Limit {
		return r.RateError(time.Second) // of the whole limit, it can be admitted once the store is back
	}
	return r.RateError(d.RetryAfter)
}

// settle settles the reservation of the exchange. It is called once, when the exchange has ended, but before Envoy's
// own facts about the end are known.
func (x *Exchange) settle() {
	c := &x.charging
	if !c.sent {
		if c.held != nil {
			x.c.Record.Settled = limit.Amounts{limit.Requests: c.counted} // no provider has seen it: its tokens cost nothing
			c.held.Settle(x.c.Record.Settled)
		}
		return
	}
	x.count()
	x.doubt(&x.c.Record)
	if x.c.Operation == nil && x.c.Record.Upstream == "" && x.meters() {
		x.c.Record.Upstream = x.c.Active.Targets[0].Model
	}
	x.c.Record.SetCost(c.in.Prices.Of(x.vendor(), x.c.Record.Upstream), c.demand.Surcharges, c.tier, &c.tally)
	x.countTries()
	if u := &x.c.Record.Usage; c.held != nil {
		x.c.Record.Settled = limit.Amounts{
			limit.Requests: 1, limit.InputTokens: u.PromptTokens, limit.OutputTokens: u.CompletionTokens,
			limit.Tokens: max(u.TotalTokens, u.PromptTokens+u.CompletionTokens), limit.Cost: int64(x.c.Record.Cost),
		}
		if s := x.session; s != nil {
			for m := range s.owed {
				x.c.Record.Settled[m] += s.owed[m]
			}
		}
		c.held.Settle(x.c.Record.Settled)
	}
	x.note()
}

// doubt bounds the usage of a record by what the model can do.
func (x *Exchange) doubt(r *metering.Record) {
	var can *configv1.Capabilities
	if x.c.Operation != nil && x.c.Operation.TextAnswer && x.c.Config.Catalog != nil { // others take many inputs at once
		can = x.c.Config.Catalog.Facts(r.Vendor, r.Upstream).GetCapabilities()
	}
	r.Doubtful = usage.Bound(&r.Usage, can, x.charging.demand.Answers)
	r.Estimated = r.Estimated || r.Doubtful // the ledger tells it so
}

// vendor returns the kind of the charged provider.
func (x *Exchange) vendor() string {
	if x.provider != nil {
		return x.provider.Vendor.Name
	}
	return x.c.Active.Targets[0].Provider.Vendor.Name
}

// count estimates the usage that was not reported. Whatever was sent to a provider is charged, at least with its
// prompt, and with as much of its answer as has come, however the exchange ends. The only exceptions are operations
// that are free, and requests that the provider has refused or has never got.
func (x *Exchange) count() {
	c, r := &x.charging, &x.c.Record
	complete, told := r.Outcome == metering.OutcomeFinished, r.Usage.PromptTokens > 0
	failed := r.Outcome == metering.OutcomeFailed || r.Outcome == metering.OutcomeRejected
	switch {
	case x.c.Operation != nil && x.c.Operation.Free:
		r.Usage = openai.Usage{}
		return
	case failed && r.Usage.IsZero() && !x.hasContent(): // an error with status 200 is a refusal too
	case !x.c.Operation.IsCounted():
		x.countPassed()
	case c.begun || c.unanswered || r.Outcome == metering.OutcomeCut && !c.refused:
		r.Usage, r.Estimated = c.text.Usage(x.vendor(), r.Upstream, r.Usage, complete)
		x.countDocument(complete)
	}
	c.demand.AddHourCache(&r.Usage, !told)
	if complete || c.billed || c.begun && r.Outcome == metering.OutcomeCut {
		r.Images = c.demand.Images
	}
}

// countPassed estimates the usage of an answer that passes unchanged. For an answer that was cut, or a Route's stream
// that never reported usage, it counts the estimated prompt and the length of what has passed. For an answer that was
// not shown or cannot be read, it counts the prompt only.
func (x *Exchange) countPassed() {
	r, route, told := &x.c.Record, x.c.Operation == nil, !x.c.Record.Usage.IsZero()
	cut := r.Outcome == metering.OutcomeCut || r.Outcome == metering.OutcomeTruncated ||
		r.Outcome == metering.OutcomeFailed || x.charging.unanswered
	switch {
	case r.Unseen && (route && !x.charging.opaque || told):
		return
	case !r.Unseen && cut && told && !route:
		return
	case !r.Unseen && !cut && (told || !route || !r.Stream || !x.charging.begun):
		return
	}
	before := r.Usage
	if r.Usage.PromptTokens == 0 {
		r.Usage.PromptTokens = x.charging.demand.Input
	}
	if !r.Unseen { // usage at the beginning of a stream does not include the later text
		r.Usage.CompletionTokens = max(r.Usage.CompletionTokens, x.passedTokens())
	}
	r.Estimated = r.Usage != before
}

// countDocument estimates the answer of a document that passes and was cut, as if all of it were text.
func (x *Exchange) countDocument(complete bool) {
	u := &x.c.Record.Usage
	if complete || x.watch == nil || x.c.Record.Stream || !x.c.Operation.TextAnswer || u.CompletionTokens > 0 {
		return
	}
	u.CompletionTokens = tokens.Estimate(int(x.charging.received))
	if most := mostOutput(x.charging.in, x.c.Active.Targets); most > 0 {
		u.CompletionTokens = min(u.CompletionTokens, most)
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
}

// countTries adds the prompts of the attempts before the last that a provider bills.
func (x *Exchange) countTries() {
	r := &x.c.Record
	if len(r.Tries) < 2 || x.c.Operation != nil && x.c.Operation.Free {
		return
	}
	prompt := r.Usage.PromptTokens
	if prompt == 0 && x.c.Operation.IsCounted() {
		u, _ := x.charging.text.Usage(x.vendor(), r.Upstream, openai.Usage{}, false)
		prompt = u.PromptTokens
	}
	for i := range r.Tries[:len(r.Tries)-1] {
		t := &r.Tries[i]
		t.Prompt = cmp.Or(prompt, x.charging.demand.Input)
		price := x.charging.in.Prices.Of(x.c.Active.Targets[i].Provider.Vendor.Name, t.Upstream)
		t.Cost, _ = price.Rates.Cost(usage.Used{Usage: openai.Usage{PromptTokens: t.Prompt}})
	}
	r.ChargeTries()
}

// passedTokens estimates the tokens of an answer that was cut. An event of a stream is about ten times as long as its
// text.
func (x *Exchange) passedTokens() int64 {
	const envelope = 10
	if !x.c.Record.Stream {
		return 0
	}
	return tokens.Estimate(int(x.charging.received / envelope))
}
