package exchange

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// sendOut lets the first attempt go to its provider. Before that it writes a record of the charge for the case that
// the process dies.
func (x *Exchange) sendOut(reply Reply) Reply {
	x.state, x.charging.sent = awaitResponse, true
	x.record.Dispatched, x.record.SentAt = true, x.env.Now()
	first := &x.active.Targets[0]
	x.record.Provider, x.record.Vendor, x.record.Upstream = first.Provider.Config.GetName(), first.Provider.Vendor.Name,
		first.Model
	x.record.Plan = x.active.Names()
	if x.env.Spool == nil {
		return reply
	}
	c := &x.charging
	begun := x.record
	begun.Usage, begun.Estimated = openai.Usage{PromptTokens: c.demand.Input}, true
	c.demand.AddHourCache(&begun.Usage, true)
	begun.SetCost(c.in.prices.Of(first.Provider.Vendor.Name, first.Model), c.demand.Surcharges, "", &metering.Tally{})
	x.env.Spool.Begin(begun.Entry())
	return reply
}

// note sends the record to the ledger. If only Envoy knows how the exchange ended, the journal sends it instead.
func (x *Exchange) note() {
	if x.env.Spool != nil && !x.record.EndsInJournal() {
		x.env.Spool.End(x.record.Entry())
	}
}
