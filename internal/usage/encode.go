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
		e.attempt(33, a)
	}
	e.text(34, r.GetRefusedBy())
	e.text(35, r.GetKeyHint())
}

func (e *encoder) attempt(field protowire.Number, a *ledgerv1.Attempt) {
	in := encoder{}
	in.text(1, a.GetKind())
	in.text(2, a.GetProvider())
	in.text(3, a.GetUpstreamModel())
	in.number(4, uint64(a.GetStatus()))
	in.text(5, a.GetError())
	in.number(6, uint64(a.GetStartMs()))
	in.number(7, uint64(a.GetFirstByteMs()))
	in.number(8, uint64(a.GetDurationMs()))
	in.number(9, uint64(a.GetCoolMs()))
	e.invalid = e.invalid || in.invalid
	e.to = protowire.AppendBytes(protowire.AppendTag(e.to, field, protowire.BytesType), in.to)
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
