package exchange

import (
	"context"
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/tokens"
)

// charging is what an exchange knows of what it may use and what it used. Its zero value is of one that no limit holds
// for.
type charging struct {
	in      *derived
	demand  metering.Demand
	rules   *access.Rules
	held    limit.Reservation // nil: no rule holds
	entered *access.Rules     // the rules under which the door has let it in; nil: it is not inside
	waiting bool              // the door counts it in limits of requests
	counted int64             // requests, which are charged where no provider has seen it
	told    Headers           // x-ratelimit-*
	sent    bool              // the request went out to a provider
	begun   bool              // a provider has answered with a status of success
	refused bool              // or with another
	billed  bool              // what it has answered cannot be used, and is billed all the same
	opaque  bool              // or cannot be read, of a Route
	tells   bool              // the client wants to know the cost
	tier    string            // that the answer says it was given
	tally   metering.Tally    // of tools that the vendor has run
	came    int64             // bytes of the answer, as far as it is shown
	events  int               // of an answer that passes
	text    metering.Text
}

// reserve takes what the request is expected to use from what its limits leave, or returns why not.
func (x *Exchange) reserve(ctx context.Context, d metering.Demand) *openai.Error {
	c, targets := &x.charging, x.active.Targets
	c.demand, c.in = d, x.env.derived(x.config)
	x.record.User = d.User
	c.rules = c.in.rules.Rules(x.key, d.User, x.record.Model, targets[0].Provider.Config.GetName())
	if len(c.rules.Rules) == 0 || x.env.Limits == nil {
		return nil
	}
	wanted := amounts(&d, c.in, c.rules, targets)
	decided, err := x.take(ctx, wanted)
	// only a part of the limit is admitted here
	if err == nil && decided.Refused >= 0 && decided.RetryAfter == 0 && d.Output < 0 {
		wanted[limit.Tokens] -= wanted[limit.OutputTokens]
		wanted[limit.OutputTokens] = 0
		decided, err = x.take(ctx, wanted)
	}
	return x.told(wanted, decided, err)
}

// take asks for amounts under the rules of the exchange, which hold what is admitted until it has ended.
func (x *Exchange) take(ctx context.Context, wanted limit.Amounts) (limit.Decision, error) {
	c := &x.charging
	decided, err := x.env.Limits.Reserve(ctx, limit.Demand{ID: x.record.ID, Rules: c.rules.Rules, Amounts: wanted})
	x.decided()
	if err != nil {
		return decided, err
	}
	if c.entered != nil {
		x.env.door.Learn(c.entered, c.rules, wanted, decided, x.env.Now())
	}
	c.told, c.held = c.rules.Tell(decided), decided.Reservation
	return decided, nil
}

// told returns what a client is told of a decision that keeps it out, or nil.
func (x *Exchange) told(wanted limit.Amounts, decided limit.Decision, err error) *openai.Error {
	switch {
	case err != nil:
		return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer,
			Code:    openai.CodeLimitsUnavailable,
			Message: "The gateway cannot check the limits of your key at the moment. Please retry.", RetryAfter: time.Second}
	case decided.Degraded && x.env.Observer != nil:
		x.env.Observer.Degraded()
	}
	if decided.Refused >= 0 {
		return x.refused(wanted, decided)
	}
	return nil
}

// An Observer is told what is worth counting and is in no record. It is safe for concurrent use.
type Observer interface {
	// Degraded says that the store of limits was away, and that a request was admitted or refused by this process's own
	// count.
	Degraded()
	// Refused says that a limit of a domain, or a budget ("cost"), of a kind of scope has refused a request.
	Refused(domain, scope string)
	// Shed says that a request was refused, or an answer lost, for want of "memory", or because "bytes" of bodies or
	// those of its key, "key_bytes", are as many as may be.
	Shed(why string)
	// Chunks says that n chunks of a stream have come together, gap after those before.
	Chunks(r *metering.Record, n int, gap time.Duration)
}

// refused returns what a client is told that a rule keeps out.
func (x *Exchange) refused(wanted limit.Amounts, d limit.Decision) *openai.Error {
	rule, of := &x.charging.rules.Rules[d.Refused], &x.charging.rules.Whose[d.Refused]
	if x.env.Observer != nil {
		x.env.Observer.Refused(rule.Measure.String(), of.Kind)
	}
	r := access.Refusal{Rule: rule, Of: of, Model: x.record.Model, Organization: x.key.Organization,
		Wanted: wanted[rule.Measure], Left: d.States[d.Refused].Remaining, Now: x.record.Start}
	if rule.Measure == limit.Cost {
		return r.Budget(d.States[d.Refused].Reset, d.RetryAfter)
	}
	if d.Degraded && d.RetryAfter == 0 && r.Wanted <= rule.Limit {
		return r.Rate(time.Second) // of the whole limit, it can be admitted once the store is back
	}
	return r.Rate(d.RetryAfter)
}

// settle ends what the exchange reserved. It is called once, when the exchange has ended but for what only Envoy
// knows.
func (x *Exchange) settle() {
	c := &x.charging
	if !c.sent {
		if c.held != nil {
			c.held.Settle(limit.Amounts{limit.Requests: c.counted}) // no provider has seen it: its tokens cost nothing
		}
		return
	}
	x.count()
	x.record.Unusable = c.billed
	if x.operation == nil && x.record.Upstream == "" && x.meters() {
		x.record.Upstream = x.active.Targets[0].Model
	}
	u := &x.record.Usage
	x.record.SetCost(c.in.prices.Of(x.vendor(), x.record.Upstream), c.demand.Surcharges, c.tier, &c.tally)
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

// count completes the usage by what was not reported. Of a provider that refused there is none. Of one that has not
// answered when the client left, the prompt counts.
func (x *Exchange) count() {
	c, r := &x.charging, &x.record
	complete, told := r.Outcome == metering.OutcomeFinished, r.Usage.PromptTokens > 0
	failed := r.Outcome == metering.OutcomeFailed || r.Outcome == metering.OutcomeRejected
	switch {
	case failed && r.Usage.IsZero() && !x.spoke(): // an error with status 200 is a refusal too
	case !x.operation.IsCounted():
		x.countPassed()
	case c.begun || r.Outcome == metering.OutcomeCut && !c.refused:
		r.Usage, r.Estimated = c.text.Usage(x.vendor(), r.Upstream, r.Usage, complete)
	}
	c.demand.Keep(&r.Usage, !told)
	if complete || c.billed || c.begun && r.Outcome == metering.OutcomeCut {
		r.Images = c.demand.Images
	}
}

// countPassed is count for an answer that passes as it comes: of one that was cut, or a Route's stream that never told
// its usage, what the prompt may have been counts, and the length of what has passed. Of one that is not shown or
// cannot be read, the prompt alone.
func (x *Exchange) countPassed() {
	r, route, told := &x.record, x.operation == nil, !x.record.Usage.IsZero()
	cut := r.Outcome == metering.OutcomeCut || r.Outcome == metering.OutcomeTruncated ||
		r.Outcome == metering.OutcomeFailed
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
	if !r.Unseen { // what a vendor reports at the beginning is not what it has said since
		r.Usage.CompletionTokens = max(r.Usage.CompletionTokens, x.passedTokens())
	}
	r.Estimated = r.Usage != before
}

// passedTokens guesses how many tokens an answer had that was cut. An event of a stream is some ten times as long as
// its text.
func (x *Exchange) passedTokens() int64 {
	const envelope = 10
	if !x.record.Stream {
		return 0
	}
	return tokens.Estimate(int(x.charging.came / envelope))
}
