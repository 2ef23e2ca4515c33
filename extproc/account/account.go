package account

import (
	"cmp"

	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

// An Account is the expected and the actual usage of an exchange. Its zero value after Open is for an exchange without
// limits.
type Account struct {
	Call *call.Call
	in   *call.Derived // since the reservation

	// The reservation.
	Demand  metering.Demand
	Rules   *access.Rules     // nil: none applies
	held    limit.Reservation // nil: no rule applies
	entered *access.Rules     // rules under which the door admitted the request; nil: not inside
	waiting bool              // the door counts the request under limits of requests
	counted int64             // requests to charge if no provider has seen the request
	hit     *hit              // nil: a provider is asked

	// What is known of the request and of its answer.
	WantsCost  bool // the client wants to know the cost
	sent       bool // the request was sent to a provider
	Begun      bool // a provider has answered with a status of success
	Refused    bool // a provider has answered with another status
	Billed     bool // the answer cannot be used, but is billed
	Opaque     bool // the answer of a Route cannot be read
	Unanswered bool // a provider has got the request, and Envoy has given up waiting for its answer
	passes     bool // the answer passes, and is watched
	said       bool // an answer that passes has content
	Tier       string
	tally      metering.Tally // tools that the vendor has run
	Received   int64          // shown bytes of the answer
	Text       metering.Text
	owed       []int64 // what a session has used above its limits, by measure
	Salvaged   bool    // the usage was read from an answer that is not complete
}

// Open prepares the account of a call.
func (a *Account) Open(c *call.Call) { a.Call = c }

// Meters reports whether the usage of a Route's answer is needed. A request that only reads repeats usage that was
// charged before.
func (a *Account) Meters() bool {
	return a.Rules != nil && a.Rules.Metered && !call.IsRead(a.Call.Record.Method)
}

// WillMeter is Meters for a request to a provider before anything is reserved, under all limits that may be for it.
func (a *Account) WillMeter(provider string) bool {
	return a.Call.Key != nil && !call.IsRead(a.Call.Record.Method) &&
		a.Call.Derived().Rules.Rules(a.Call.Key, "", "", provider).Metered
}

// Watched takes what an answer that passes has reported, when the exchange ends.
func (a *Account) Watched(said metering.Report) {
	a.passes = true
	a.Call.Record.Usage, a.Call.Record.Upstream = said.Used, cmp.Or(a.Call.Record.Upstream, said.Model)
	a.Tier, a.tally, a.said = said.Tier, said.Tally, said.Said
	a.tally.Complete = a.Call.Record.Outcome == metering.OutcomeFinished
}

// Owe has what a session has used above its limits settled with its own reservation.
func (a *Account) Owe(used *limit.Amounts) { a.owed = used[:] }

// PriceOf returns the price of a vendor's model, as it was when the exchange began.
func (a *Account) PriceOf(vendor, model string) metering.Price {
	return a.in.Prices.Of(vendor, model, a.Call.Record.Start)
}
