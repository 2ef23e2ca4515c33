package exchange

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// sendOut lets the first attempt go to its provider. Before that it writes a record of the charge for the case that
// the process dies.
func (x *Exchange) sendOut(reply Reply) Reply {
	x.state, x.charging.sent = awaitResponse, true
	x.c.Record.Dispatched, x.c.Record.SentAt = true, x.c.Env.Now()
	first := &x.c.Active.Targets[0]
	x.c.Record.Provider, x.c.Record.Vendor = first.Provider.Config.GetName(), first.Provider.Vendor.Name
	x.c.Record.Upstream = first.Model
	x.c.Record.Plan = x.c.Active.Names()
	if x.c.Env.Spool == nil {
		return reply
	}
	c := &x.charging
	begun := x.c.Record
	begun.Usage, begun.Estimated = openai.Usage{PromptTokens: c.demand.Input}, true
	c.demand.AddHourCache(&begun.Usage, true)
	begun.SetCost(c.in.Prices.Of(first.Provider.Vendor.Name, first.Model), c.demand.Surcharges, "", &metering.Tally{})
	x.c.Env.Spool.Begin(begun.Entry())
	return reply
}

// note sends the record to the ledger. If only Envoy knows how the exchange ended, the journal sends it instead.
func (x *Exchange) note() {
	if x.c.Env.Spool != nil && !x.c.Record.EndsInJournal() {
		x.c.Env.Spool.End(x.c.Record.Entry())
	}
}
