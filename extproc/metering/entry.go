package metering

import (
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Price is the price of a model in computable form.
type Price struct {
	Rates   *usage.Rates // nil: no price
	Version string
}

// SetCost sets the cost of the usage, in the service tier that was given, or else requested. A tier without a price
// costs as no tier. The version of the price shows which price was used.
func (r *Record) SetCost(p Price, s *Surcharges, given string, t *Tally) {
	tier := s.tier(given, r.Usage.Speed)
	rates, known := p.Rates.In(tier)
	r.Cost, r.Priced = rates.Cost(usage.Used{Usage: r.Usage, Images: r.Images})
	r.PriceVersion = p.Version
	if p.Rates == nil {
		return
	}
	if !known {
		r.PriceVersion += "/unpriced:" + tier[:min(len(tier), 32)]
	} else if rates != p.Rates {
		r.PriceVersion += "/" + tier
	}
	if !r.Usage.IsZero() {
		r.Fees = s.fees(p.Rates, r, t)
		r.Cost = r.Cost.Plus(r.Fees)
	}
}

// SetCostByModel has parts of the usage that other models have used cost what these cost, after SetCost. Of returns
// their prices.
func (r *Record) SetCostByModel(p Price, of func(model string) Price, s *Surcharges, given string) {
	tier := s.tier(given, r.Usage.Speed)
	rates, _ := p.Rates.In(tier)
	used := usage.Used{Usage: r.Usage, Images: r.Images}
	alike, _ := rates.Cost(used)
	each, _ := rates.CostByModel(used, func(model string) *usage.Rates {
		in, _ := of(model).Rates.In(tier)
		return in
	})
	r.Cost += each - alike
}

// An entry is a record and its times in one piece of memory.
type entry struct {
	record            ledgerv1.Record
	start, end        timestamppb.Timestamp
	details           ledgerv1.Details
	reserved, settled ledgerv1.Amounts
	trace             trace.TraceID
}

// set sets a time of an entry, and returns it.
func set(to *timestamppb.Timestamp, t time.Time) *timestamppb.Timestamp {
	to.Seconds, to.Nanos = t.Unix(), int32(t.Nanosecond())
	return to
}

// Entry returns the ledger's record of an exchange that was sent to a provider. A request of the job service that may
// be sent again is charged under an id of its own if it finishes, so that its answer is charged once. Any other end is
// charged under the id of the exchange, like that of every other request: the provider bills that attempt too.
func (r *Record) Entry() *ledgerv1.Record {
	made := &entry{record: ledgerv1.Record{
		Id: r.ID, RequestId: r.RequestID,
		Key: r.Key, Organization: r.Organization, Project: r.Project, User: r.User,
		Operation: r.Operation, Model: r.Model, Provider: r.Provider, UpstreamModel: r.Upstream,
		Attempts: uint32(max(r.Attempts, 0)), Stream: r.Stream, Status: uint32(max(r.Status, 0)), Outcome: string(r.Outcome),
		Estimated:   r.Estimated,
		CostNanoUsd: int64(r.Cost), Priced: r.Priced, PriceVersion: r.PriceVersion,
		RefusedBy: r.RefusedBy, KeyHint: r.KeyHint,
	}}
	e, used := &made.record, &usage.Used{Usage: r.Usage, Images: r.Images}
	e.Start = set(&made.start, r.Start)
	if !r.End.IsZero() {
		e.AttemptList, e.Details = r.Attempted(), r.detail(made, used)
	}
	used.Fill(e)
	if e.Provider == "" && r.Cache.Served() {
		e.Provider = usage.ResponseCache
	}
	e.Tried = r.isTry()
	if r.Charge != "" && r.Outcome == OutcomeFinished {
		e.Id, e.Exchange = r.Charge, r.ID
	}
	if r.Outcome == OutcomeCut {
		e.Outcome = "interrupted" // Envoy has not said by whom
	}
	if !r.End.IsZero() {
		e.End = set(&made.end, r.End)
	}
	if !r.FirstByte.IsZero() {
		e.FirstByteMs = max(r.FirstByte.Sub(r.Start).Milliseconds(), 0)
	}
	e.ErrorCode = r.ErrorCode()
	return e
}

// isTry reports whether the job service asks again after this end, as far as the end says.
func (r *Record) isTry() bool {
	if !r.Again || r.End.IsZero() || r.Outcome == OutcomeFinished || r.Error != nil && r.Error.NoRetry {
		return false
	}
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return true
	case http.StatusTooManyRequests:
		return r.Error == nil || r.Error.Code != openai.TypeInsufficientQuota && r.Error.Type != openai.TypeInsufficientQuota
	}
	return r.Status < http.StatusBadRequest || r.Status >= http.StatusInternalServerError
}

// detail fills the details of an entry. It returns nil if there are none.
func (r *Record) detail(to *entry, used *usage.Used) *ledgerv1.Details {
	d := &to.details
	d.Rules, d.Plan, d.Dropped, d.Adjusted, d.UpstreamId = r.Rules, r.Plan, r.Dropped, r.Adjusted, r.UpstreamID
	d.Counts, d.FeesNanoUsd = used.Details(), int64(r.Fees)
	d.Guards, d.Cache, d.Policy = r.Guards.Texts(), r.Cache.Text(), r.Policy
	if r.Error != nil && r.RefusedBy != "" && r.RefusedBy != ByRequest { // that may quote the request
		d.Message = r.Error.Message
	}
	some := d.Message != "" ||
		len(d.Guards) > 0 || d.Cache != "" || d.Policy != "" || len(d.Rules) > 0 || len(d.Plan) > 0 ||
		d.Dropped != "" || d.Adjusted != "" || d.UpstreamId != "" || len(d.Counts) > 0 || d.FeesNanoUsd > 0
	if len(d.Rules) > 0 {
		d.Reserved, d.Settled = fill(&to.reserved, &r.Reserved), fill(&to.settled, &r.Settled)
	}
	if r.Span != nil && r.Span.SpanContext().HasTraceID() {
		to.trace = r.Span.SpanContext().TraceID()
		d.TraceId, some = to.trace[:], true
	}
	if !some {
		return nil
	}
	return d
}

// fill sets amounts of an entry, and returns them.
func fill(to *ledgerv1.Amounts, a *limit.Amounts) *ledgerv1.Amounts {
	to.Requests, to.Tokens, to.InputTokens = a[limit.Requests], a[limit.Tokens], a[limit.InputTokens]
	to.OutputTokens, to.CostNanoUsd = a[limit.OutputTokens], a[limit.Cost]
	return to
}
