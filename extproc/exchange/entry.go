package exchange

import (
	"cmp"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// sendOut lets the first attempt go out. What it would be charged if the process died is noted before.
func (x *Exchange) sendOut(reply Reply) Reply {
	x.state, x.charging.sent = awaitResponse, true
	x.record.Out = true
	first := &x.active.Targets[0]
	x.record.Provider, x.record.Vendor, x.record.Upstream = first.Provider.Config.GetName(), first.Provider.Vendor.Name, first.Model
	if x.env.Spool == nil || x.record.Charge != "" {
		return reply // a line that nobody heard of is asked again, and charged then
	}
	c := &x.charging
	begun := x.record
	begun.Usage, begun.Estimated = openai.Usage{PromptTokens: c.demand.input}, true
	c.demand.keep(&begun.Usage, true)
	begun.charge(c.in.price(first.Provider.Vendor.Name, first.Model), c.demand.surcharges, "", &tally{})
	x.env.Spool.Begin(begun.Entry())
	return reply
}

// note gives the ledger its record, unless only Envoy knows how the exchange ended: then the journal does.
func (x *Exchange) note() {
	if x.env.Spool != nil && !x.record.Open() {
		x.env.Spool.End(x.record.Entry())
	}
}

// charge sets what the usage costs, in the service tier that was given, or where the answer does not say, that was asked for. A tier
// without a price costs as none; the version of the price tells either.
func (r *Record) charge(p price, s *surcharges, given string, t *tally) {
	tier := cmp.Or(given, s.asked())
	rates, known := p.rates.In(tier)
	r.Cost, r.Priced = rates.Cost(usage.Used{Usage: r.Usage, Images: r.Images})
	r.PriceVersion = p.version
	if p.rates == nil {
		return
	}
	if !known {
		r.PriceVersion += "/unpriced:" + tier[:min(len(tier), 32)]
	} else if rates != p.rates {
		r.PriceVersion += "/" + tier
	}
	if !r.Usage.IsZero() {
		r.Cost = r.Cost.Plus(s.fees(p.rates, r, t))
	}
}

// Entry returns what the ledger keeps of an exchange that went out. A line of a batch is charged once, under an id of its own, and
// so by the try that finishes: one that does not is asked again, and is charged under its own id where its answer was billed
// and could not be used.
func (r *Record) Entry() *ledgerv1.Record {
	if r.Charge != "" && r.Outcome != OutcomeFinished {
		try := *r
		if try.Charge = ""; !r.Unusable {
			try.Usage, try.Images, try.Cost, try.Estimated = openai.Usage{}, 0, 0, false
		}
		return try.Entry()
	}
	e := &ledgerv1.Record{
		Id: r.ID, RequestId: r.RequestID, Start: timestamppb.New(r.Start),
		Key: r.KeyID, Organization: r.Organization, Project: r.Project, User: r.User,
		Operation: r.Operation, Model: r.Model, Provider: r.Provider, UpstreamModel: r.Upstream,
		Attempts: uint32(max(r.Attempts, 0)), Stream: r.Stream, Status: uint32(max(r.Status, 0)), Outcome: string(r.Outcome),
		InputTokens: r.Usage.PromptTokens, CachedTokens: r.Usage.CachedTokens, CacheWriteTokens: r.Usage.CacheWriteTokens,
		InputAudioTokens: r.Usage.PromptAudio, OutputTokens: r.Usage.CompletionTokens, ReasoningTokens: r.Usage.ReasoningTokens,
		OutputAudioTokens: r.Usage.CompletionAudio, Images: r.Images, Estimated: r.Estimated,
		CostNanoUsd: int64(r.Cost), Priced: r.Priced, PriceVersion: r.PriceVersion,
	}
	if r.Charge != "" {
		e.Id = r.Charge
	}
	if r.Outcome == OutcomeCut {
		e.Outcome = "interrupted" // Envoy has not said by whom
	}
	if !r.End.IsZero() {
		e.End = timestamppb.New(r.End)
	}
	if !r.FirstByte.IsZero() {
		e.FirstByteMs = max(r.FirstByte.Sub(r.Start).Milliseconds(), 0)
	}
	if r.Error != nil {
		e.ErrorCode = cmp.Or(r.Error.Code, r.Error.Type)
	}
	return e
}
