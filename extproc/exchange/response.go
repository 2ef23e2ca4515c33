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
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// Headers that the gateway sets on answers.
const (
	headerProvider = "x-modelgate-provider" // who answered
	headerAttempts = "x-modelgate-attempts" // how many attempts it took, where more than one
	headerDropped  = "x-modelgate-dropped"  // parameters that the provider does not support
	// parameters whose values were replaced by similar ones that the provider supports
	headerAdjusted  = "x-modelgate-adjusted"
	headerUpstream  = "x-upstream-request-id" // the provider's own id of the request
	headerCost      = "x-modelgate-cost-usd"  // cost of the request, on demand
	headerTellCost  = "x-modelgate-include-cost"
	contentTypeSSE  = "text/event-stream; charset=utf-8"
	contentTypeJSON = "application/json"
	contentTypeForm = "multipart/form-data"
)

// ResponseHeaders handles the headers of an answer. The answer is a provider's, or Envoy's own if it reached no
// provider.
func (x *Exchange) ResponseHeaders(h Headers, f Facts, end bool) Reply {
	var reply Reply
	switch {
	case x.state == inReplay:
		reply = x.replayHeaders(h, f)
	case x.further != nil && x.further.first != nil:
		return takeOver(x, h, f)
	case isFurther(x):
		reply = x.responseHeaders(h, factsOf(x), end)
	default:
		reply = x.responseHeaders(h, f, end)
	}
	if reply.Again != nil {
		noteStale(x, h)
		return reply
	}
	if isFurther(x) {
		reply = replaceHead(x, reply, h)
	}
	if x.duplex.on {
		return x.await(reply, end)
	}
	return reply
}

func (x *Exchange) responseHeaders(h Headers, f Facts, end bool) Reply {
	if x.state != awaitResponse {
		return Reply{ResponseBody: None} // Envoy's own answer to a request without a plan
	}
	status, _ := strconv.Atoi(h.Get(":status"))
	x.c.Record.Attempts, x.c.Record.Provider = f.Attempts, envoy.ProviderOf(f.Cluster)
	if p := x.c.Config.Providers[x.c.Record.Provider]; p != nil {
		x.c.Record.Vendor = p.Vendor.Name
	}
	x.c.Record.Status = status
	if f.Attempts > 1 && x.c.Active != nil {
		x.try() // Envoy has told of the attempts before
	}
	if f.CodeDetails != envoy.CodeDetailsUpstream {
		return x.passEnvoys(status, f.CodeDetails)
	}
	x.c.Record.Answered = status
	x.account.Begun = status >= 200 && status <= 299
	x.account.Refused = !x.account.Begun
	x.room.Release() // of the request: no further attempt follows
	switch x.c.Active.Kind {
	case envoy.KindPassed:
		return x.passRouted(h, status, end)
	case envoy.KindJobs:
		return x.passJobs(status, end)
	}
	target, a, ok := x.c.Active.Answer(min(f.Attempts, len(x.c.Active.Targets)))
	if !ok {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_unplanned_answer")
	}
	x.answer, x.c.Provider = a, target.Provider
	x.c.Record.Upstream = target.Model
	x.account.Text.Retried(a.Body)
	letGo(x)
	x.duplex.size = announcedAnswer(h)
	x.gatewayHeaders = x.providerHeaders(h)
	if x.session != nil && status == statusUpgraded {
		return x.beginSession(h)
	}
	if status < 200 || status > 299 {
		return x.errorHeaders(h, status, end)
	}
	x.c.Env.Cooldown.Served(x.c.Provider, x.c.Record.Start)
	if h.Get("content-encoding") != "" || end {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_bad_answer")
	}
	reply := x.answerHeaders(h)
	switch {
	case a.Reader == nil:
		return x.passAnswer(h, reply)
	case x.c.WantsStream:
		return x.beginStream(h, reply)
	}
	x.open(x.c.Operation.Document)
	x.state, reply.ResponseBody = inUnary, Buffered
	x.cached.Collect(contentTypeJSON)
	reply.Set = append(reply.Set, Header{Name: "content-type", Value: contentTypeJSON})
	return reply
}

// passEnvoys passes an answer of Envoy itself.
func (x *Exchange) passEnvoys(status int, details string) Reply {
	if x.session != nil && details == notUpgraded {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_not_upgraded")
	}
	x.c.Record.Outcome = metering.OutcomeGateway
	x.account.Unanswered = metering.Reached(details, x.c.Env.Now().Sub(x.c.Record.SentAt))
	if x.c.Active != nil { // else the job service's
		x.c.Record.Error = envoysError(status, details)
	}
	x.c.Finish()
	// Envoy does not have the id any more
	return Reply{ResponseBody: None, Set: append(x.c.AppendID(nil), x.c.LimitHeaders...)}
}

// envoysError is the error in an answer of Envoy itself about a provider, as the listener's local replies write it.
func envoysError(status int, details string) *openai.Error {
	e := &openai.Error{Status: status, Type: openai.TypeServer}
	switch {
	case strings.HasPrefix(details, "ext_proc_"), strings.HasPrefix(details, "mismatch_between_content_length"):
		e.Code = openai.CodeGatewayUnavailable
	case status == http.StatusGatewayTimeout:
		e.Code = openai.CodeUpstreamTimeout
	case details == "response_payload_too_large":
		e.Code = openai.CodeUpstreamResponseTooLarge
	case status == http.StatusServiceUnavailable:
		e.Code = openai.CodeUpstreamUnavailable
	default:
		return nil
	}
	return e
}

// open prepares the pipeline that writes the answer.
func (x *Exchange) open(write func(chat.Asked) chat.Writer) {
	asked := chat.Asked{Model: x.c.Record.Model, Created: x.c.Record.Start.Unix(), IncludeUsage: x.c.IncludeUsage,
		Plain: x.c.Dialect.Plain, Echo: x.c.Echo, Carrier: x.c.Head.Carrier}
	x.pipe.Reset(pipeline.Options{Answer: x.answer.Reader, Asked: asked, Writer: write(asked), Meter: &x.account.Text,
		Guard: x.guardAnswer()})
}

// beginStream handles the headers of an answer that is translated piece by piece.
func (x *Exchange) beginStream(h Headers, reply Reply) Reply {
	switch media := h.Get("content-type"); {
	case x.c.Provider.Vendor.Streams(media):
	case mediaType(media) == contentTypeJSON: // an error, most likely
		x.open(x.c.Operation.Stream)
		x.state, reply.ResponseBody = inUnary, Buffered
		return reply
	default:
		return x.failUpstream(pipeline.ErrNotAStream, "mg_not_a_stream")
	}
	x.state, reply.ResponseBody = inStream, Streamed
	x.open(x.c.Operation.Stream)
	reply.Remove = append(reply.Remove, "content-length")
	media := cmp.Or(x.c.Operation.StreamType, contentTypeSSE)
	reply.Set = append(reply.Set, Header{Name: "content-type", Value: media},
		Header{Name: "cache-control", Value: "no-cache"})
	x.cached.Collect(media)
	return reply
}

// answerHeaders removes all headers of a provider that are not for the client.
func (x *Exchange) answerHeaders(h Headers) Reply {
	reply := Reply{Set: x.gatewayHeaders, Remove: x.removed[:0]} // the reply to the request was sent
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToClient(name) {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// providerHeaders returns the headers that the gateway adds to a provider's answer.
func (x *Exchange) providerHeaders(h Headers) Headers {
	own := make(Headers, 0, 8+len(x.c.LimitHeaders)) // with room for headers that are added later
	own = append(own, x.c.LimitHeaders...)
	own = x.c.AppendID(append(own, Header{Name: headerProvider, Value: x.c.Record.Provider}))
	r := &x.c.Record
	if r.UpstreamID = upstreamID(h); r.UpstreamID != "" && x.guardAnswer() != nil &&
		x.guarded.answer.Message(r.UpstreamID) != r.UpstreamID {
		r.UpstreamID = ""
	}
	if r.UpstreamID != "" {
		own = append(own, Header{Name: headerUpstream, Value: r.UpstreamID})
	}
	if x.c.Record.Attempts > 1 {
		own = append(own, Header{Name: headerAttempts, Value: strconv.Itoa(x.c.Record.Attempts)})
	}
	if r.Cache != nil {
		own = append(own, Header{Name: headerCache, Value: string(r.Cache.Result)})
	}
	r.Dropped, r.Adjusted = joined(x.answer.Dropped), joined(x.answer.Adjusted)
	return appendKnown(appendKnown(own, headerDropped, r.Dropped), headerAdjusted, r.Adjusted)
}

// joined returns the value of a header with names.
func joined(names []string) string {
	all := strings.Join(names, ",")
	return all[:min(len(all), maxHeader)]
}

// appendKnown appends a header, if it has a value.
func appendKnown(h Headers, name, value string) Headers {
	if value != "" {
		h = append(h, Header{Name: name, Value: value})
	}
	return h
}

// maxHeader bounds the value of a header: proxies accept 8 KB for all headers.
const maxHeader = 1024

// upstreamIDs are the headers in which vendors send their id of a request.
var upstreamIDs = [...]string{"x-request-id", "request-id", "x-amzn-requestid", "apim-request-id",
	"mistral-correlation-id"}

// upstreamID returns the provider's id of a request, or "" if there is none or it is too long for a header.
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

// errorHeaders makes Envoy buffer the body of an error, because status and body are replaced by OpenAI's.
func (x *Exchange) errorHeaders(h Headers, status int, end bool) Reply {
	x.status, x.header = status, h.HTTP()
	if end {
		e := x.c.Provider.Vendor.DecodeError(status, x.header, nil)
		return x.failUpstream(e, "mg_upstream_error")
	}
	x.state = inError
	reply := x.answerHeaders(h)
	reply.Remove = append(reply.Remove, "content-encoding")
	reply.ResponseBody = Buffered
	return reply
}

// failUpstream ends the exchange with an error before any of the answer was sent.
func (x *Exchange) failUpstream(err error, details string) Reply {
	if reply, ok := tryAgain(x, err); ok {
		return reply
	}
	e := x.fail(err)
	h := e.Header()
	for _, own := range x.gatewayHeaders {
		h.Set(own.Name, own.Value)
	}
	return x.c.Immediate(e.Status, h, x.c.ErrorBody(e), details)
}

// fail ends the exchange with a failure of the provider, and returns the error for the client.
func (x *Exchange) fail(err error) *openai.Error {
	if a := x.guarded.answer; a != nil && a.Unjudged != "" {
		x.guarded.away, x.c.Record.RefusedBy = true, "guardrail "+a.Unjudged
	}
	x.account.Billed = x.account.Begun && (x.guarded.away || x.guarded.hasBlocked() || !isRefusal(err))
	e := x.exhausted(x.guardError(x.c.Provider.Scrub(pipeline.ClientError(err))))
	if x.account.Billed && !x.c.Internal && !errors.Is(err, provider.ErrTruncated) {
		e = e.Final() // a retry would be billed again, with the same result
	}
	if x.c.Provider != nil {
		x.c.Record.Cool = x.c.Env.Cooldown.Refused(x.c.Provider, cmp.Or(x.status, e.Status), e.RetryAfter, x.c.Env.Now())
	}
	x.c.Record.Outcome, x.c.Record.Error = metering.OutcomeFailed, e
	switch {
	case errors.Is(err, provider.ErrTruncated):
		x.c.Record.Outcome = metering.OutcomeTruncated
	case x.guarded.away, isClientError(e.Status):
		x.c.Record.Outcome = metering.OutcomeRejected
	}
	// the status of a stream that has begun was sent
	if x.state != inPassed && (x.state != inStream || !x.pipe.HasOutput()) {
		x.c.Record.Status = e.Status
	}
	x.c.Finish()
	return e
}

// exhausted tells SDKs not to retry if the gateway has made every attempt that the model allows, because a retry would
// repeat all of them. An error with a retry-after can be retried. The job service decides about retries itself.
func (x *Exchange) exhausted(e *openai.Error) *openai.Error {
	if x.c.Internal || x.c.Record.Attempts < 2 || x.c.Record.Attempts < len(x.c.Active.Targets) || e.RetryAfter > 0 ||
		e.NoRetry || isClientError(e.Status) {
		return e
	}
	return e.Final()
}

// isClientError reports whether the client caused an error with this status, so that it says nothing about the
// provider.
func isClientError(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// ResponseBody handles a piece of an answer's body, or the whole body if it is not streamed.
func (x *Exchange) ResponseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.duplex.on {
		return x.nextPiece(ctx, piece, end)
	}
	reply := x.responseBody(ctx, piece, end)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	x.c.Sent(piece)
	return reply
}

func (x *Exchange) responseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.c.Record.FirstByte.IsZero() {
		x.c.Record.FirstByte = x.c.Env.Now()
	}
	x.account.Received += int64(len(piece))
	x.beginJudging(len(piece))
	defer x.turn.Release()
	switch x.state {
	case inStream:
		return x.streamPiece(ctx, piece, end)
	case inPassed:
		return x.passPiece(ctx, piece, end)
	case inSession:
		return x.sessionPiece(ctx, piece, end)
	case inScrubbed:
		return x.scrubPiece(piece, end)
	case inUnary:
		return x.wholeBody(ctx, piece)
	case inJudged:
		return x.judgedWhole(ctx, piece)
	case inError:
		e := x.c.Provider.Vendor.DecodeError(x.status, x.header, piece)
		if x.mayCountInstead(e) {
			return x.countInstead()
		}
		return x.replaceByError(e)
	}
	return Reply{ReplaceBody: true} // bytes after the end mark or the error of a stream
}

// wholeBody handles a complete answer.
func (x *Exchange) wholeBody(ctx context.Context, body []byte) Reply {
	if x.room.IsMissing {
		x.salvage(body)
		return x.replaceByError(room.ErrNone)
	}
	out, err := x.pipe.Whole(ctx, body)
	if hasLeft(err) {
		return Reply{ReplaceBody: true}
	}
	if x.c.WantsStream && (err == nil || !isRefusal(err)) {
		err = pipeline.ErrNotAStream
	}
	if err != nil {
		x.salvage(body)
		return x.replaceByError(err)
	}
	x.c.Record.Outcome = metering.OutcomeFinished
	x.account.Text.Report(x.pipe.Usage())
	x.c.Finish()
	set := append(x.sized[:0], Header{Name: "content-length", Value: strconv.Itoa(len(out))})
	if x.account.WantsCost && x.c.Record.Priced {
		set = append(set, Header{Name: headerCost, Value: x.c.Record.Cost.String()})
	}
	return Reply{ReplaceBody: true, Body: out, Set: set}
}

func (x *Exchange) streamPiece(ctx context.Context, piece []byte, end bool) Reply {
	out, err := x.pipe.Piece(ctx, piece, end)
	x.c.Chunks(x.pipe.Chunks())
	x.account.Text.Report(x.pipe.Usage())
	switch {
	case x.pipe.HasEnded():
		x.c.Record.Outcome = metering.OutcomeFinished
		x.c.Finish()
	case hasLeft(err):
		return Reply{ReplaceBody: true}
	case err != nil && !x.pipe.HasOutput():
		return x.failUpstream(err, "mg_failed_stream")
	case err != nil:
		out = append(slices.Clone(out), x.pipe.Fail(x.fail(err))...) // the writer owns the bytes so far
	}
	return Reply{ReplaceBody: true, Body: out}
}

// replaceByError replaces a complete body by an error.
func (x *Exchange) replaceByError(err error) Reply {
	if reply, ok := tryAgain(x, err); ok {
		return reply
	}
	e := x.fail(err)
	body := x.c.ErrorBody(e)
	reply := Reply{ReplaceBody: true, Body: body, Set: Headers{{Name: ":status", Value: strconv.Itoa(e.Status)},
		{Name: "content-length", Value: strconv.Itoa(len(body))}}}
	for name, values := range e.Header() {
		reply.Set = append(reply.Set, Header{Name: strings.ToLower(name), Value: values[0]})
	}
	return reply
}
