package usage

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// An encoder writes a record in Protobuf's format, in a third of the time of the library.
type encoder struct {
	to      []byte
	invalid bool // a string is not UTF-8
}

// record writes the fields of a record, in the order of their numbers.
func (e *encoder) record(r *ledgerv1.Record) {
	e.text(1, r.GetId())
	e.text(2, r.GetRequestId())
	e.time(3, r.GetStart())
	e.time(4, r.GetEnd())
	e.text(5, r.GetKey())
	e.text(6, r.GetOrganization())
	e.text(7, r.GetProject())
	e.text(8, r.GetUser())
	e.text(9, r.GetOperation())
	e.text(10, r.GetModel())
	e.text(11, r.GetProvider())
	e.text(12, r.GetUpstreamModel())
	e.number(13, uint64(r.GetAttempts()))
	e.flag(14, r.GetStream())
	e.number(15, uint64(r.GetStatus()))
	e.text(16, r.GetOutcome())
	e.text(17, r.GetErrorCode())
	e.number(18, uint64(r.GetFirstByteMs()))
	e.number(19, uint64(r.GetInputTokens()))
	e.number(20, uint64(r.GetCachedTokens()))
	e.number(21, uint64(r.GetCacheWriteTokens()))
	e.number(22, uint64(r.GetInputAudioTokens()))
	e.number(23, uint64(r.GetOutputTokens()))
	e.number(24, uint64(r.GetReasoningTokens()))
	e.number(25, uint64(r.GetOutputAudioTokens()))
	e.number(26, uint64(r.GetImages()))
	e.flag(27, r.GetEstimated())
	e.flag(28, r.GetBatch())
	e.number(29, uint64(r.GetCostNanoUsd()))
	e.flag(30, r.GetPriced())
	e.text(31, r.GetPriceVersion())
	e.number(32, uint64(r.GetRequests()))
	for _, a := range r.GetAttemptList() {
		start := e.begin(33)
		e.attempt(a)
		e.end(start)
	}
	e.text(34, r.GetRefusedBy())
	e.text(35, r.GetKeyHint())
	if d := r.GetDetails(); d != nil {
		start := e.begin(36)
		e.details(d)
		e.end(start)
	}
	e.text(37, r.GetExchange())
	e.flag(38, r.GetTried())
}

func (e *encoder) details(d *ledgerv1.Details) {
	if id := d.GetTraceId(); len(id) > 0 {
		e.to = protowire.AppendBytes(protowire.AppendTag(e.to, 1, protowire.BytesType), id)
	}
	e.texts(2, d.GetRules())
	for i, a := range [...]*ledgerv1.Amounts{d.GetReserved(), d.GetSettled()} {
		if a != nil {
			start := e.begin(protowire.Number(3 + i))
			e.amounts(a)
			e.end(start)
		}
	}
	e.texts(5, d.GetPlan())
	e.text(6, d.GetDropped())
	e.text(7, d.GetAdjusted())
	e.text(8, d.GetUpstreamId())
	e.number(10, uint64(d.GetFeesNanoUsd()))
	e.texts(11, d.GetGuards())
	e.text(12, d.GetCache())
	e.text(13, d.GetPolicy())
	for _, c := range d.GetCounts() {
		start := e.begin(14)
		e.text(1, c.GetName())
		e.number(2, uint64(c.GetN()))
		e.end(start)
	}
	e.text(15, d.GetMessage())
}

func (e *encoder) amounts(a *ledgerv1.Amounts) {
	e.number(1, uint64(a.GetRequests()))
	e.number(2, uint64(a.GetTokens()))
	e.number(3, uint64(a.GetInputTokens()))
	e.number(4, uint64(a.GetOutputTokens()))
	e.number(5, uint64(a.GetCostNanoUsd()))
}

// begin begins a message, and returns where.
func (e *encoder) begin(field protowire.Number) (start int) {
	e.to = protowire.AppendTag(e.to, field, protowire.BytesType)
	return len(e.to)
}

// end ends a message, and moves it to make room for its length.
func (e *encoder) end(start int) {
	n := len(e.to) - start
	e.to = protowire.AppendVarint(e.to, uint64(n)) // grows it by the size of the length
	copy(e.to[len(e.to)-n:], e.to[start:start+n])
	protowire.AppendVarint(e.to[:start], uint64(n))
}

func (e *encoder) texts(field protowire.Number, all []string) {
	for _, s := range all { // also those that are empty
		e.invalid = e.invalid || !utf8.ValidString(s)
		e.to = protowire.AppendString(protowire.AppendTag(e.to, field, protowire.BytesType), s)
	}
}

func (e *encoder) attempt(a *ledgerv1.Attempt) {
	e.text(1, a.GetKind())
	e.text(2, a.GetProvider())
	e.text(3, a.GetUpstreamModel())
	e.number(4, uint64(a.GetStatus()))
	e.text(5, a.GetError())
	e.number(6, uint64(a.GetStartMs()))
	e.number(7, uint64(a.GetFirstByteMs()))
	e.number(8, uint64(a.GetDurationMs()))
	e.number(9, uint64(a.GetCoolMs()))
}

func (e *encoder) text(field protowire.Number, s string) {
	if s == "" {
		return
	}
	e.invalid = e.invalid || !utf8.ValidString(s)
	e.to = protowire.AppendString(protowire.AppendTag(e.to, field, protowire.BytesType), s)
}

func (e *encoder) number(field protowire.Number, n uint64) {
	if n != 0 {
		e.to = protowire.AppendVarint(protowire.AppendTag(e.to, field, protowire.VarintType), n)
	}
}

func (e *encoder) flag(field protowire.Number, on bool) { e.number(field, protowire.EncodeBool(on)) }

func (e *encoder) time(field protowire.Number, t *timestamppb.Timestamp) {
	if t == nil {
		return
	}
	e.to = append(protowire.AppendTag(e.to, field, protowire.BytesType), 0)
	start := len(e.to)
	e.number(1, uint64(t.GetSeconds()))
	e.number(2, uint64(int64(t.GetNanos())))
	e.to[start-1] = byte(len(e.to) - start) // at most 22, which takes one byte
}
