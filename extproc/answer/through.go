package answer

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/provider"
)

// PassHeaders handles the headers of an answer that passes unchanged. A body that may report usage is watched. Other
// bodies, such as audio, are not shown.
func (a *Answer) PassHeaders(h call.Headers, reply call.Reply) call.Reply {
	c := a.Call
	switch call.MediaType(h.Get("content-type")) {
	case "text/event-stream":
		c.Record.Stream = true
		reply = a.WatchBy(&metering.EventWatch{}, reply)
		reply.Set = append(reply.Set, call.Header{Name: "cache-control", Value: "no-cache"})
		reply.Remove = append(reply.Remove, "content-length") // a stream that is cut gets an error event at its end
	case TypeJSON:
		if reply = a.WatchBy(&metering.DocumentWatch{}, reply); c.Guarded.Answer() != nil {
			a.Sent, c.Whole, reply.ResponseBody = false, true, call.Buffered
		}
	default:
		if c.Guarded.Answer() != nil && c.Guarded.Answer().Changes() && !isMedia(h.Get("content-type")) {
			return a.FailUpstream(provider.ErrNotAnAnswer, "mg_unread_answer")
		}
		c.PassUnseen(&reply)
		reply.ResponseBody = call.None
		return reply
	}
	c.Media = h.Get("content-type")
	return reply
}

// WatchBy has the pieces of an answer watched.
func (a *Answer) WatchBy(w metering.Watch, reply call.Reply) call.Reply {
	a.Watch, a.Sent, reply.ResponseBody = w, true, call.Streamed
	return reply
}

// isMedia reports whether a content type is of data that have no text which guardrails could read. Its parameters are
// short and plain.
func isMedia(contentType string) bool {
	kind, of, _ := strings.Cut(contentType, "/")
	if len(of) > 48 || strings.ContainsFunc(of, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("+.-=; ", r)
	}) {
		return false
	}
	return kind == "audio" || kind == "video" || kind == "image" && !strings.HasPrefix(of, "svg") ||
		contentType == "application/octet-stream"
}

// PassPiece passes a piece, except for an incomplete event at its end. A truncated stream gets an error event.
func (a *Answer) PassPiece(ctx context.Context, piece []byte, end bool) call.Reply {
	c := a.Call
	out, changed := a.Watch.Feed(piece)
	c.Chunks(a.Watch.Chunks())
	if c.Operation.IsCounted() && c.Record.Stream {
		a.Account.Text.Events(out, a.Watch.Report().Used)
	}
	if c.Record.Stream && c.Guarded.Answer() != nil {
		judged, err := c.Guarded.Answer().Events(ctx, out)
		if err != nil {
			return call.Reply{ReplaceBody: true, Body: c.Dialect.AppendErrorEvent(nil, a.Fail(err)), End: true}
		}
		out, changed = judged, true
	}
	if !end {
		return call.Reply{ReplaceBody: changed, Body: out}
	}
	rest, complete, failed := a.Watch.End()
	switch {
	case failed:
		c.Record.Outcome = metering.OutcomeFailed
		c.Finish()
	case complete:
		c.Record.Outcome = metering.OutcomeFinished
		c.Finish()
	default:
		e := a.Fail(provider.ErrTruncated)
		if c.Record.Stream {
			// an incomplete event is omitted
			return call.Reply{ReplaceBody: true, Body: c.Dialect.AppendErrorEvent(slices.Clone(out), e)}
		}
	}
	if len(rest) > 0 {
		out, changed = slices.Concat(out, rest), true
	}
	return call.Reply{ReplaceBody: changed, Body: out}
}

// JudgedWhole handles a complete answer that passes if rules allow it.
func (a *Answer) JudgedWhole(ctx context.Context, body []byte) call.Reply {
	out, err := a.judge(ctx, body)
	a.Watch.Feed(body)
	_, complete, _ := a.Watch.End()
	if failed := FailureOf(a.Watch.Report(), complete, body); failed != nil {
		if reply, ok := a.Call.Again(failed); ok {
			return reply
		}
	}
	if err != nil {
		return a.ReplaceByError(err)
	}
	reply := a.PassPiece(ctx, nil, true)
	return call.Reply{ReplaceBody: true, Body: append(out, reply.Body...),
		Set: call.Headers{{Name: "content-length", Value: strconv.Itoa(len(out) + len(reply.Body))}}}
}

// judge has guardrails judge a complete answer: events, or a document.
func (a *Answer) judge(ctx context.Context, body []byte) ([]byte, error) {
	if !a.Call.Record.Stream {
		return a.Call.Guarded.Answer().Document(ctx, body)
	}
	return a.Call.Guarded.Answer().Events(ctx, body)
}
