package account

import (
	"cmp"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/internal/usage"
)

// Settle settles the reservation of the exchange. It is called once, when the exchange has ended, but before Envoy's
// own facts about the end are known.
func (a *Account) Settle() {
	if !a.sent {
		if a.held != nil {
			a.Call.Record.Settled = limit.Amounts{limit.Requests: a.counted} // no provider has seen it: its tokens cost nothing
			a.held.Settle(a.Call.Record.Settled)
		}
		return
	}
	a.count()
	a.Doubt(&a.Call.Record)
	if a.Call.Operation == nil && a.Call.Record.Upstream == "" && a.Meters() {
		a.Call.Record.Upstream = a.Call.Active.Targets[0].Model
	}
	a.setCost()
	a.countTries()
	if u := &a.Call.Record.Usage; a.held != nil {
		a.Call.Record.Settled = limit.Amounts{
			limit.Requests: 1, limit.InputTokens: u.PromptTokens, limit.OutputTokens: u.CompletionTokens,
			limit.Tokens: max(u.TotalTokens, u.PromptTokens+u.CompletionTokens), limit.Cost: int64(a.Call.Record.Cost),
		}
		for m, owed := range a.owed {
			a.Call.Record.Settled[m] += owed
		}
		a.held.Settle(a.Call.Record.Settled)
	}
	a.Note()
}

// Doubt bounds the usage of a record by what the model can do.
func (a *Account) Doubt(r *metering.Record) {
	var can *configv1.Capabilities
	op := a.Call.Operation
	if op != nil && op.TextAnswer && a.Call.Config.Catalog != nil { // others take many inputs at once
		can = a.Call.Config.Catalog.Facts(r.Vendor, r.Upstream).GetCapabilities()
	}
	r.Doubtful = usage.Bound(&r.Usage, can, a.Demand.Answers)
	r.Estimated = r.Estimated || r.Doubtful // the ledger tells it so
}

// vendor returns the kind of the charged provider.
func (a *Account) vendor() string {
	if a.Call.Provider != nil {
		return a.Call.Provider.Vendor.Name
	}
	return a.Call.Active.Targets[0].Provider.Vendor.Name
}

// count estimates the usage that was not reported. Whatever was sent to a provider is charged, at least with its
// prompt, and with as much of its answer as has come, however the exchange ends. The only exceptions are operations
// that are free, and requests that the provider has refused or has never got.
func (a *Account) count() {
	r := &a.Call.Record
	complete, told := r.Outcome == metering.OutcomeFinished, r.Usage.PromptTokens > 0
	failed := r.Outcome == metering.OutcomeFailed || r.Outcome == metering.OutcomeRejected
	switch {
	case a.Call.Operation != nil && a.Call.Operation.Free:
		r.Usage = openai.Usage{}
		return
	case failed && r.Usage.IsZero() && !a.hasContent(): // an error with status 200 is a refusal too
	case !a.Call.Operation.IsCounted():
		a.countPassed()
	case a.Begun || a.Unanswered || r.Outcome == metering.OutcomeCut && !a.Refused:
		r.Usage, r.Estimated = a.Text.Usage(a.vendor(), r.Upstream, r.Usage, complete)
		a.countDocument(complete)
	}
	a.Demand.AddHourCache(&r.Usage, !told)
	if complete || a.Billed || a.Begun && r.Outcome == metering.OutcomeCut {
		r.Images = a.Demand.Images
	}
}

// countPassed estimates the usage of an answer that passes unchanged. For an answer that was cut or reported no usage,
// it counts the estimated prompt and what has passed. A Route's document that reports none costs nothing. For an
// answer of a Route that cannot be read, it counts the prompt only.
func (a *Account) countPassed() {
	r, route, told := &a.Call.Record, a.Call.Operation == nil, !a.Call.Record.Usage.IsZero()
	cut := r.Outcome == metering.OutcomeCut || r.Outcome == metering.OutcomeTruncated ||
		r.Outcome == metering.OutcomeFailed || a.Unanswered
	switch {
	case r.Unseen && (route && !a.Opaque || told):
		return
	case !r.Unseen && cut && told && !route:
		return
	case !r.Unseen && !cut && (told || !a.Begun || route && !r.Stream):
		return
	}
	before := r.Usage
	if r.Usage.PromptTokens == 0 {
		r.Usage.PromptTokens = a.Demand.Input
	}
	switch op := a.Call.Operation; {
	case route && !r.Unseen: // usage at the beginning of a stream does not include the later text
		r.Usage.CompletionTokens = max(r.Usage.CompletionTokens, a.passedTokens())
	case !route && a.Begun && (cut || !op.ImageAnswer): // whole images are charged as such
		said, sound := a.Demand.Unreported(op, a.Received, r.Stream)
		r.Usage.CompletionTokens, r.Usage.CompletionAudio = max(r.Usage.CompletionTokens, said), sound
	}
	r.Estimated = r.Usage != before
}

// countDocument estimates the answer of a document that passes and was cut, as if all of it were text.
func (a *Account) countDocument(complete bool) {
	u := &a.Call.Record.Usage
	if complete || !a.passes || a.Call.Record.Stream || !a.Call.Operation.TextAnswer || u.CompletionTokens > 0 {
		return
	}
	u.CompletionTokens = tokens.Estimate(int(a.Received))
	if most := mostOutput(a.in, a.Call.Active.Targets); most > 0 {
		u.CompletionTokens = min(u.CompletionTokens, most)
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
}

// setCost sets the cost of what the record has used.
func (a *Account) setCost() {
	r, vendor := &a.Call.Record, a.vendor()
	price := a.PriceOf(vendor, r.Upstream)
	r.SetCost(price, a.Demand.Surcharges, a.Tier, &a.tally)
	if r.Usage.ByModel != nil {
		r.SetCostByModel(price, func(model string) metering.Price { return a.PriceOf(vendor, model) }, a.Demand.Surcharges,
			a.Tier)
	}
}

// EndTry charges an attempt that has failed under a status of success, and prepares the account for the answer to the
// n-th attempt. It says why the attempt failed, and how long its provider is left alone.
func (a *Account) EndTry(n int, why string, cool time.Duration, now time.Time) {
	r := &a.Call.Record
	a.count()
	a.setCost()
	r.Tries[r.Attempts-1].End(r, why, cool, now)
	for i := r.Attempts; i < n-1; i++ {
		r.Tries[i].Known, r.Tries[i].Error = true, "not built"
	}
	r.Reopen(n)
	a.Begun, a.Refused, a.Billed, a.Unanswered, a.passes, a.said, a.Received = false, false, false, false, false, false, 0
	a.Salvaged = false
	a.Text, a.Tier, a.tally = metering.Text{}, "", metering.Tally{}
}

// countTries adds the prompts of the attempts before the last that a provider bills.
func (a *Account) countTries() {
	r := &a.Call.Record
	if len(r.Tries) < 2 || a.Call.Operation != nil && a.Call.Operation.Free {
		return
	}
	prompt := r.Usage.PromptTokens
	if prompt == 0 && a.Call.Operation.IsCounted() {
		u, _ := a.Text.Usage(a.vendor(), r.Upstream, openai.Usage{}, false)
		prompt = u.PromptTokens
	}
	for i := range r.Tries[:len(r.Tries)-1] {
		t := &r.Tries[i]
		if t.Used != nil {
			continue
		}
		t.Prompt = cmp.Or(prompt, a.Demand.Input)
		price := a.PriceOf(a.Call.Active.Targets[i].Provider.Vendor.Name, t.Upstream)
		t.Cost, _ = price.Rates.Cost(usage.Used{Usage: openai.Usage{PromptTokens: t.Prompt}})
	}
	r.ChargeTries()
}

// passedTokens estimates the tokens of an answer that was cut. An event of a stream is about ten times as long as its
// text.
func (a *Account) passedTokens() int64 {
	const envelope = 10
	if !a.Call.Record.Stream {
		return 0
	}
	return tokens.Estimate(int(a.Received / envelope))
}

// hasContent reports whether an answer that failed had begun: the client has seen some of it, it had content, or its
// content is unknown.
func (a *Account) hasContent() bool {
	if a.passes { // that it is announced, and its error, may have been sent
		return a.Billed || a.said
	}
	return a.Billed || a.Call.Record.Sent > 0 || a.Text.HasOutput()
}

// Salvage reads the usage of an unusable complete answer, in any known dialect, or else its text.
func (a *Account) Salvage(body []byte) {
	a.Salvaged = true
	w := metering.DocumentWatch{}
	w.Feed(body)
	if a.Call.Record.Usage = w.Report().Used; a.Call.Record.Usage.CompletionTokens == 0 {
		a.Text.Salvage(body)
	}
}
