package exchange

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// sendOut lets the first attempt go out. What it would be charged if the process died is noted before.
func (x *Exchange) sendOut(reply Reply) Reply {
	x.state, x.charging.sent = awaitResponse, true
	x.record.Out = true
	first := &x.active.Targets[0]
	x.record.Provider, x.record.Vendor, x.record.Upstream = first.Provider.Config.GetName(), first.Provider.Vendor.Name,
		first.Model
	if x.env.Spool == nil || x.record.Charge != "" {
		return reply // a line that nobody heard of is asked again, and charged then
	}
	c := &x.charging
	begun := x.record
	begun.Usage, begun.Estimated = openai.Usage{PromptTokens: c.demand.Input}, true
	c.demand.Keep(&begun.Usage, true)
	begun.SetCost(c.in.prices.Of(first.Provider.Vendor.Name, first.Model), c.demand.Surcharges, "", &metering.Tally{})
	x.env.Spool.Begin(begun.Entry())
	return reply
}

// note gives the ledger its record, unless only Envoy knows how the exchange ended: then the journal does.
func (x *Exchange) note() {
	if x.env.Spool != nil && !x.record.Open() {
		x.env.Spool.End(x.record.Entry())
	}
}
