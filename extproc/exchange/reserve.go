package exchange

import (
	"context"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/tokens"
)

// charging is what an exchange knows of what it may use and what it used. Its zero value is of one that no limit holds for.
type charging struct {
	in      *derived
	demand  demand
	rules   *ruleSet
	held    limit.Reservation // nil: no rule holds
	told    Headers           // x-ratelimit-*
	sent    bool              // the request went out to a provider
	begun   bool              // a provider has answered with a status of success
	refused bool              // or with another
	tells   bool              // the client wants to know the cost
	text    text
}

// reserve takes what the request is expected to use from what its limits leave, or returns why not.
func (x *Exchange) reserve(ctx context.Context, d demand) *openai.Error {
	c, targets := &x.charging, x.active.Targets
	c.demand, c.in = d, x.env.derived(x.config)
	x.record.User = d.user
	c.rules = c.in.rules(x.key, d.user, x.record.Model, targets[0].Provider.Config.GetName())
	if len(c.rules.rules) == 0 || x.env.Limits == nil {
		return nil
	}
	wanted := limit.Demand{ID: x.record.ID, Rules: c.rules.rules, Amounts: d.amounts(c.in, c.rules, targets)}
	decided, err := x.env.Limits.Reserve(ctx, wanted)
	if err == nil && decided.Refused >= 0 && decided.RetryAfter == 0 && d.output < 0 { // only a part of the limit is admitted here
		wanted.Amounts[limit.Tokens] -= wanted.Amounts[limit.OutputTokens]
		wanted.Amounts[limit.OutputTokens] = 0
		decided, err = x.env.Limits.Reserve(ctx, wanted)
	}
	switch {
	case err != nil:
		return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: "limits_unavailable",
			Message: "The gateway cannot check the limits of your key at the moment. Please retry.", RetryAfter: time.Second}
	case decided.Degraded && x.env.Observer != nil:
		x.env.Observer.Degraded()
	}
	c.told = c.rules.tell(decided)
	if decided.Refused >= 0 {
		return x.refused(wanted, decided)
	}
	c.held = decided.Reservation
	return nil
}

// An Observer is told what is worth counting and is in no record. It is safe for concurrent use.
type Observer interface {
	// Degraded says that the store of limits was away, and that a request was admitted or refused by this process's own count.
	Degraded()
	// Refused says that a limit of a domain, or a budget ("cost"), of a kind of scope has refused a request.
	Refused(domain, scope string)
	// Chunks says that n chunks of a stream have come together, gap after those before.
	Chunks(r *Record, n int, gap time.Duration)
}

// refused returns what a client is told that a rule keeps out.
func (x *Exchange) refused(wanted limit.Demand, d limit.Decision) *openai.Error {
	rule, of := &x.charging.rules.rules[d.Refused], &x.charging.rules.whose[d.Refused]
	if x.env.Observer != nil {
		x.env.Observer.Refused(domainOf(rule.Measure), of.kind)
	}
	r := refusal{rule: rule, of: of, model: x.record.Model, organization: x.key.Organization,
		wanted: wanted.Amounts[rule.Measure], left: d.States[d.Refused].Remaining, now: x.record.Start}
	if rule.Measure == limit.Cost {
		return r.budget(d.States[d.Refused].Reset, d.RetryAfter)
	}
	if d.Degraded && d.RetryAfter == 0 && r.wanted <= rule.Limit {
		return r.rate(time.Second) // of the whole limit, it can be admitted once the store is back
	}
	return r.rate(d.RetryAfter)
}

// settle ends what the exchange reserved. It is called once, when the exchange has ended but for what only Envoy knows.
func (x *Exchange) settle() {
	c := &x.charging
	if !c.sent {
		if c.held != nil {
			c.held.Settle(limit.Amounts{}) // no provider has seen it: it costs nothing
		}
		return
	}
	x.count()
	u := &x.record.Usage
	x.record.charge(c.in.price(x.vendor(), x.record.Upstream))
	if c.held != nil {
		c.held.Settle(limit.Amounts{
			limit.Requests: 1, limit.InputTokens: u.PromptTokens, limit.OutputTokens: u.CompletionTokens,
			limit.Tokens: max(u.TotalTokens, u.PromptTokens+u.CompletionTokens), limit.Cost: int64(x.record.Cost),
		})
	}
	x.note()
}

// vendor returns the kind of the provider that is charged.
func (x *Exchange) vendor() string {
	if x.by != nil {
		return x.by.Vendor.Name
	}
	return x.active.Targets[0].Provider.Vendor.Name
}

// count completes the usage by what was not reported. Of a provider that refused there is none. Of one that has not answered
// when the client left, the prompt counts.
func (x *Exchange) count() {
	c, r := &x.charging, &x.record
	complete := r.Outcome == OutcomeFinished
	failed := r.Outcome == OutcomeFailed || r.Outcome == OutcomeRejected
	switch {
	case failed && r.Sent == 0 && r.Usage.IsZero(): // an error with status 200 is a refusal too
	case !x.operation.isCounted():
		x.countPassed()
	case c.begun || r.Outcome == OutcomeCut && !c.refused:
		r.Usage, r.Estimated = c.text.usage(x.vendor(), r.Upstream, r.Usage, complete)
	}
	if complete {
		r.Images = c.demand.images
	}
}

// countPassed is count for an answer that passes as it comes: of one that was cut, or a Route's stream that never told its usage,
// what the prompt may have been counts, and the length of what has passed. Of one that is not shown, the prompt alone.
func (x *Exchange) countPassed() {
	r, route, told := &x.record, x.operation == nil, !x.record.Usage.IsZero()
	cut := r.Outcome == OutcomeCut || r.Outcome == OutcomeTruncated || r.Outcome == OutcomeFailed
	switch {
	case r.Unseen && (route || told):
		return
	case !r.Unseen && cut && told && !route:
		return
	case !r.Unseen && !cut && (told || !route || !r.Stream || !x.charging.begun):
		return
	}
	before := r.Usage
	if r.Usage.PromptTokens == 0 {
		r.Usage.PromptTokens = x.charging.demand.input
	}
	if !r.Unseen { // what a vendor reports at the beginning is not what it has said since
		r.Usage.CompletionTokens = max(r.Usage.CompletionTokens, passedTokens(r))
	}
	r.Estimated = r.Usage != before
}

// passedTokens guesses how many tokens an answer had that was cut. An event of a stream is some ten times as long as its text.
func passedTokens(r *Record) int64 {
	const envelope = 10
	if !r.Stream {
		return 0
	}
	return tokens.Estimate(int(r.Sent / envelope))
}
