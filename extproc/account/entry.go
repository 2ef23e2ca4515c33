package account

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// Send notes that the first attempt goes to its provider. Before that it writes a record of the charge for the case
// that the process dies.
func (a *Account) Send() {
	r := &a.Call.Record
	a.sent, r.Dispatched, r.SentAt = true, true, a.Call.Env.Now()
	first := &a.Call.Active.Targets[0]
	r.Provider, r.Vendor, r.Upstream = first.Provider.Config.GetName(), first.Provider.Vendor.Name, first.Model
	r.Plan = a.Call.Active.Names()
	if a.Call.Env.Spool == nil {
		return
	}
	begun := *r
	begun.Usage, begun.Estimated = openai.Usage{PromptTokens: a.Demand.Input}, true
	a.Demand.AddHourCache(&begun.Usage, true)
	begun.SetCost(a.PriceOf(first.Provider.Vendor.Name, first.Model), a.Demand.Surcharges, "", &metering.Tally{})
	a.Call.Env.Spool.Begin(begun.Entry())
}

// Note sends the record to the ledger. If only Envoy knows how the exchange ended, the journal sends it instead.
func (a *Account) Note() {
	if a.Call.Env.Spool != nil && !a.Call.Record.EndsInJournal() {
		a.Call.Env.Spool.End(a.Call.Record.Entry())
	}
}
