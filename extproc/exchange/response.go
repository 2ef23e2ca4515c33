package exchange

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// Headers of answers that are the gateway's own.
const (
	headerProvider = "x-modelgate-provider" // who answered
	headerAttempts = "x-modelgate-attempts" // how many attempts it took, where more than one
	headerDropped  = "x-modelgate-dropped"  // parameters that the provider could not honour
	// parameters whose values the provider does not take, and has others near to them
	headerAdjusted  = "x-modelgate-adjusted"
	headerUpstream  = "x-upstream-request-id" // the provider's own id of the request
	headerCost      = "x-modelgate-cost-usd"  // what the request cost, where it was asked for
	headerTellCost  = "x-modelgate-include-cost"
	contentTypeSSE  = "text/event-stream; charset=utf-8"
	contentTypeJSON = "application/json"
	contentTypeForm = "multipart/form-data"
)

// ResponseHeaders takes the headers of an answer: a provider's, or one that Envoy made because it reached none.
func (x *Exchange) ResponseHeaders(h Headers, f Facts, end bool) Reply {
	reply := x.responseHeaders(h, f, end)
	if x.duplex.on {
		return x.await(reply, end)
	}
	return reply
}

func (x *Exchange) responseHeaders(h Headers, f Facts, end bool) Reply {
	if x.state != awaitResponse {
		return Reply{ResponseBody: None} // Envoy's own answer to a request that was never planned
	}
	status, _ := strconv.Atoi(h.Get(":status"))
	x.record.Attempts, x.record.Provider = f.Attempts, envoy.ProviderOf(f.Cluster)
	if p := x.config.Providers[x.record.Provider]; p != nil {
		x.record.Vendor = p.Vendor.Name
	}
	x.record.Status = status
	if f.CodeDetails != envoy.CodeDetailsUpstream {
		x.record.Outcome = metering.OutcomeGateway
		x.finish()
		// Envoy knows it no more
		return Reply{ResponseBody: None, Set: append(Headers{{Name: "x-request-id", Value: x.record.RequestID}},
			x.charging.told...)}
	}
	x.charging.begun = status >= 200 && status <= 299
	x.charging.refused = !x.charging.begun
	x.room.Release() // of the request; there is no further attempt
	switch x.active.Kind {
	case envoy.KindPassed:
		return x.passRouted(h, status, end)
	case envoy.KindJobs:
		return x.passJobs(status, end)
	}
	target, a, ok := x.active.Answer(min(f.Attempts, len(x.active.Targets)))
	if !ok {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_unplanned_answer")
	}
	x.answer, x.by = a, target.Provider
	x.record.Upstream = target.Model
	x.active.Release()
	x.duplex.size = announcedAnswer(h)
	x.own = x.ownHeaders(h)
	if status < 200 || status > 299 {
		return x.errorHeaders(h, status, end)
	}
	x.env.Cooldown.Served(x.by, x.record.Start)
	if h.Get("content-encoding") != "" || end {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_bad_answer")
	}
	reply := x.answerHeaders(h)
	switch {
	case a.Reader == nil:
		return x.passAnswer(h, reply)
	case x.wantsStream:
		return x.beginStream(h, reply)
	}
	x.open(x.operation.Document)
	x.state, reply.ResponseBody = inUnary, Buffered
	reply.Set = append(reply.Set, Header{Name: "content-type", Value: contentTypeJSON})
	return reply
}

// open has the answer come to the client by a pipeline.
func (x *Exchange) open(write func(chat.Asked) chat.Writer) {
	asked := chat.Asked{Model: x.record.Model, Created: x.record.Start.Unix(), IncludeUsage: x.includeUsage,
		Plain: x.dialect.Plain}
	x.pipe.Reset(pipeline.Options{Answer: x.answer.Reader, Asked: asked, Writer: write(asked), Meter: &x.charging.text})
}

// beginStream takes the headers of an answer that is to be translated piece by piece.
func (x *Exchange) beginStream(h Headers, reply Reply) Reply {
	if !x.by.Vendor.Streams(h.Get("content-type")) {
		return x.failUpstream(pipeline.ErrNotAStream, "mg_not_a_stream")
	}
	x.state, reply.ResponseBody = inStream, Streamed
	x.open(x.operation.Stream)
	reply.Remove = append(reply.Remove, "content-length")
	reply.Set = append(reply.Set, Header{Name: "content-type", Value: contentTypeSSE},
		Header{Name: "cache-control", Value: "no-cache"})
	return reply
}

// answerHeaders keeps of a provider's headers only what is the client's business.
func (x *Exchange) answerHeaders(h Headers) Reply {
	reply := Reply{Set: x.own}
	for i := range h {
		if name := h[i].Name; !answerKept(name) {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// ownHeaders returns what the gateway tells of a provider's answer.
func (x *Exchange) ownHeaders(h Headers) Headers {
	own := make(Headers, 0, 8+len(x.charging.told)) // with room for what else is set
	own = append(own, x.charging.told...)
	own = append(own, Header{Name: headerProvider, Value: x.record.Provider},
		Header{Name: "x-request-id", Value: x.record.RequestID})
	if id := upstreamID(h); id != "" {
		own = append(own, Header{Name: headerUpstream, Value: id})
	}
	if x.record.Attempts > 1 {
		own = append(own, Header{Name: headerAttempts, Value: strconv.Itoa(x.record.Attempts)})
	}
	return appendNames(appendNames(own, headerDropped, x.answer.Dropped), headerAdjusted, x.answer.Adjusted)
}

// appendNames appends a header with names, if there are any.
func appendNames(h Headers, name string, names []string) Headers {
	if joined := strings.Join(names, ","); joined != "" {
		h = append(h, Header{Name: name, Value: joined[:min(len(joined), maxHeader)]})
	}
	return h
}

// maxHeader bounds what goes into a header: proxies on the way take 8 KB for all of them.
const maxHeader = 1024

// answerKept reports whether a header of a provider's answer stays. Cookies, server names and organizations are the
// provider's and ours; its rate limits are those of the gateway's account, not of the client.
func answerKept(name string) bool {
	return name[0] == ':' || name == "content-type" || name == "content-length" || name == "transfer-encoding"
}

// upstreamIDs are the headers in which vendors give a request an id of theirs.
var upstreamIDs = [...]string{"x-request-id", "request-id", "x-amzn-requestid", "apim-request-id",
	"mistral-correlation-id"}

// upstreamID returns the provider's id of a request, or "" where it has none that fits into a header.
func upstreamID(h Headers) string {
	id := ""
	for i := 0; i < len(upstreamIDs) && id == ""; i++ {
		id = h.Get(upstreamIDs[i])
	}
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// errorHeaders has the body of an error come whole, so that status and body can be OpenAI's.
func (x *Exchange) errorHeaders(h Headers, status int, end bool) Reply {
	x.status, x.header = status, h.HTTP()
	if end {
		e := x.by.Vendor.DecodeError(status, x.header, nil)
		return x.failUpstream(e, "mg_upstream_error")
	}
	x.state = inError
	reply := x.answerHeaders(h)
	reply.Remove = append(reply.Remove, "content-encoding")
	reply.ResponseBody = Buffered
	return reply
}

// failUpstream ends the exchange with an error for the client before any of an answer has gone out.
func (x *Exchange) failUpstream(err error, details string) Reply {
	e := x.fail(err)
	h := e.Header()
	for _, own := range x.own {
		h.Set(own.Name, own.Value)
	}
	return x.immediate(e.Status, h, x.dialect.AppendError(nil, e), details)
}

// fail ends the exchange, which is the provider's fault, and returns the error that the client gets.
func (x *Exchange) fail(err error) *openai.Error {
	x.charging.billed = x.charging.begun && !refuses(err)
	e := x.exhausted(x.by.Scrub(pipeline.ClientError(err)))
	if x.charging.billed && !x.internal && !errors.Is(err, provider.ErrTruncated) {
		e = e.Final() // the next answer would be billed as this one is, and be no better
	}
	if x.by != nil {
		x.env.Cooldown.Refused(x.by, cmp.Or(x.status, e.Status), e.RetryAfter, x.env.Now())
	}
	x.record.Outcome, x.record.Error = metering.OutcomeFailed, e
	switch {
	case errors.Is(err, provider.ErrTruncated):
		x.record.Outcome = metering.OutcomeTruncated
	case clientsMistake(e.Status):
		x.record.Outcome = metering.OutcomeRejected
	}
	// of a stream that has begun, the status has gone out
	if x.state != inPassed && (x.state != inStream || !x.pipe.HasOutput()) {
		x.record.Status = e.Status
	}
	x.finish()
	return e
}

// exhausted keeps SDKs from asking again where the gateway itself has made every attempt that the model allows: what
// they would repeat is all of those. Who says how long to wait is worth waiting for, and the job service decides
// itself.
func (x *Exchange) exhausted(e *openai.Error) *openai.Error {
	if x.internal || x.record.Attempts < 2 || x.record.Attempts < len(x.active.Targets) || e.RetryAfter > 0 ||
		e.NoRetry || clientsMistake(e.Status) {
		return e
	}
	return e.Final()
}

// clientsMistake reports whether an error is the client's own making, and says nothing about the provider.
func clientsMistake(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// ResponseBody takes a piece of an answer's body, or all of it where it is not streamed.
func (x *Exchange) ResponseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.duplex.on {
		return x.nextPiece(ctx, piece, end)
	}
	reply := x.responseBody(ctx, piece, end)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	x.record.Sent += int64(len(piece))
	return reply
}

func (x *Exchange) responseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.record.FirstByte.IsZero() {
		x.record.FirstByte = x.env.Now()
	}
	x.charging.came += int64(len(piece))
	switch x.state {
	case inStream:
		return x.streamPiece(ctx, piece, end)
	case inPassed:
		return x.passPiece(piece, end)
	case inScrubbed:
		return x.scrubPiece(piece, end)
	case inUnary:
		return x.wholeBody(ctx, piece)
	case inError:
		return x.replaceByError(x.by.Vendor.DecodeError(x.status, x.header, piece))
	}
	return Reply{ReplaceBody: true} // what follows the end mark or an error of a stream
}

// wholeBody takes an answer that came whole.
func (x *Exchange) wholeBody(ctx context.Context, body []byte) Reply {
	if x.noRoom {
		x.salvage(body)
		return x.replaceByError(errNoRoom)
	}
	out, err := x.pipe.Whole(ctx, body)
	if err != nil {
		x.salvage(body)
		return x.replaceByError(err)
	}
	x.record.Outcome = metering.OutcomeFinished
	x.charging.text.Report(x.pipe.Usage())
	x.finish()
	set := Headers{{Name: "content-length", Value: strconv.Itoa(len(out))}}
	if x.charging.tells && x.record.Priced {
		set = append(set, Header{Name: headerCost, Value: x.record.Cost.String()})
	}
	return Reply{ReplaceBody: true, Body: out, Set: set}
}

func (x *Exchange) streamPiece(ctx context.Context, piece []byte, end bool) Reply {
	out, err := x.pipe.Piece(ctx, piece, end)
	x.chunks(x.pipe.Chunks())
	x.charging.text.Report(x.pipe.Usage())
	switch {
	case x.pipe.HasEnded():
		x.record.Outcome = metering.OutcomeFinished
		x.finish()
	case err != nil && !x.pipe.HasOutput():
		return x.failUpstream(err, "mg_failed_stream")
	case err != nil:
		out = append(slices.Clone(out), x.pipe.Fail(x.fail(err))...) // what is there is the writer's
	}
	return Reply{ReplaceBody: true, Body: out}
}

// replaceByError gives the client an error in place of a body that came whole.
func (x *Exchange) replaceByError(err error) Reply {
	e := x.fail(err)
	body := x.dialect.AppendError(nil, e)
	reply := Reply{ReplaceBody: true, Body: body, Set: Headers{{Name: ":status", Value: strconv.Itoa(e.Status)},
		{Name: "content-length", Value: strconv.Itoa(len(body))}}}
	for name, values := range e.Header() {
		reply.Set = append(reply.Set, Header{Name: strings.ToLower(name), Value: values[0]})
	}
	return reply
}
