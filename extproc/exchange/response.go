package exchange

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
)

// Headers of answers that are the gateway's own.
const (
	headerProvider  = "x-modelgate-provider"  // who answered
	headerAttempts  = "x-modelgate-attempts"  // how many attempts it took, where more than one
	headerDropped   = "x-modelgate-dropped"   // parameters that the provider could not honour
	headerUpstream  = "x-upstream-request-id" // the provider's own id of the request
	contentTypeSSE  = "text/event-stream; charset=utf-8"
	contentTypeJSON = "application/json"
	contentTypeForm = "multipart/form-data"
)

// ResponseHeaders takes the headers of an answer: a provider's, or one that Envoy made because it reached none.
func (x *Exchange) ResponseHeaders(h Headers, f Facts, end bool) Reply {
	if x.state != awaitResponse {
		return Reply{ResponseBody: None} // Envoy's own answer to a request that was never planned
	}
	status, _ := strconv.Atoi(h.Get(":status"))
	x.record.Attempts, x.record.Provider = f.Attempts, envoy.ProviderOf(f.Cluster)
	x.record.Status = status
	if f.CodeDetails != envoy.CodeDetailsUpstream {
		x.record.Outcome = OutcomeGateway
		x.finish()
		return Reply{ResponseBody: None}
	}
	if x.active.Passes {
		return x.passRouted(h, status, end)
	}
	target, a, ok := x.active.answer(min(f.Attempts, len(x.active.Targets)))
	if !ok {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_unplanned_answer")
	}
	x.answer, x.vendor = a, target.Provider.Vendor
	x.record.Upstream = target.Model
	x.active.release()
	if status < 200 || status > 299 {
		return x.errorHeaders(h, status, end)
	}
	if h.Get("content-encoding") != "" || end {
		return x.failUpstream(provider.ErrNotAnAnswer, "mg_bad_answer")
	}
	reply := x.answerHeaders(h)
	switch {
	case a.reader == nil:
		return x.passAnswer(h, reply)
	case x.wantsStream:
		return x.beginStream(h, reply)
	}
	x.state, reply.ResponseBody = inUnary, Buffered
	reply.Set = append(reply.Set, Header{"content-type", contentTypeJSON})
	return reply
}

// beginStream takes the headers of an answer that is to be translated piece by piece.
func (x *Exchange) beginStream(h Headers, reply Reply) Reply {
	if !x.vendor.Streams(h.Get("content-type")) {
		return x.failUpstream(errNotAStream, "mg_not_a_stream")
	}
	x.state, reply.ResponseBody = inStream, Streamed
	x.stream = x.answer.reader.Stream()
	x.writer = openai.NewStreamWriter(x.record.Model, x.record.Start.Unix(), x.includeUsage)
	reply.Remove = append(reply.Remove, "content-length")
	reply.Set = append(reply.Set, Header{"content-type", contentTypeSSE}, Header{"cache-control", "no-cache"})
	return reply
}

var errNotAStream = &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer, Code: "upstream_not_a_stream",
	Message: "The provider answered a request for a stream with something else."}

// answerHeaders keeps of a provider's headers only what is the client's business.
func (x *Exchange) answerHeaders(h Headers) Reply {
	var reply Reply
	for i := range h {
		if name := h[i].Name; !answerKept(name) {
			reply.Remove = append(reply.Remove, name)
		}
	}
	reply.Set = append(reply.Set, Header{headerProvider, x.record.Provider}, Header{"x-request-id", x.record.RequestID})
	if id := upstreamID(h); id != "" {
		reply.Set = append(reply.Set, Header{headerUpstream, id})
	}
	if x.record.Attempts > 1 {
		reply.Set = append(reply.Set, Header{headerAttempts, strconv.Itoa(x.record.Attempts)})
	}
	if dropped := strings.Join(x.answer.dropped, ","); dropped != "" {
		reply.Set = append(reply.Set, Header{headerDropped, dropped[:min(len(dropped), maxHeader)]})
	}
	return reply
}

// maxHeader bounds what goes into a header: proxies on the way take 8 KB for all of them.
const maxHeader = 1024

// answerKept reports whether a header of a provider's answer stays. Cookies, server names and organizations are the
// provider's and ours; its rate limits are those of the gateway's account, not of the client.
func answerKept(name string) bool {
	return name[0] == ':' || name == "content-type" || name == "content-length" || name == "transfer-encoding"
}

// upstreamID returns the provider's id of a request, or "" where it has none that fits into a header.
func upstreamID(h Headers) string {
	id := cmp.Or(h.Get("x-request-id"), h.Get("request-id"))
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// errorHeaders has the body of an error come whole, so that status and body can be OpenAI's.
func (x *Exchange) errorHeaders(h Headers, status int, end bool) Reply {
	x.status, x.header = status, h.HTTP()
	if end {
		e := x.vendor.DecodeError(status, x.header, nil)
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
	return x.immediate(e.Status, e.Header(), e.AppendJSON(nil), details)
}

// fail ends the exchange, which is the provider's fault, and returns the error that the client gets.
func (x *Exchange) fail(err error) *openai.Error {
	e := clientError(err)
	x.record.Outcome, x.record.Error = OutcomeFailed, e
	switch {
	case errors.Is(err, provider.ErrTruncated):
		x.record.Outcome = OutcomeTruncated
	case clientsMistake(e.Status):
		x.record.Outcome = OutcomeRejected
	}
	if x.state != inStream && x.state != inPassed { // of a stream, the status has gone out
		x.record.Status = e.Status
	}
	x.finish()
	return e
}

// clientsMistake reports whether an error is the client's own making, and says nothing about the provider.
func clientsMistake(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// ResponseBody takes a piece of an answer's body, or all of it where it is not streamed.
func (x *Exchange) ResponseBody(piece []byte, end bool) Reply {
	reply := x.responseBody(piece, end)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	x.record.Sent += int64(len(piece))
	return reply
}

func (x *Exchange) responseBody(piece []byte, end bool) Reply {
	if x.record.FirstByte.IsZero() {
		x.record.FirstByte = x.env.Now()
	}
	switch x.state {
	case inStream:
		return x.streamPiece(piece, end)
	case inPassed:
		return x.passPiece(piece, end)
	case inUnary:
		body, usage, err := x.answer.reader.Decode(piece, x.record.Model, x.record.Start.Unix())
		if err != nil {
			return x.replaceByError(err)
		}
		x.record.Usage, x.record.Outcome = usage, OutcomeFinished
		x.finish()
		return Reply{ReplaceBody: true, Body: body, Set: Headers{{"content-length", strconv.Itoa(len(body))}}}
	case inError:
		return x.replaceByError(x.vendor.DecodeError(x.status, x.header, piece))
	}
	return Reply{ReplaceBody: true} // what follows the end mark or an error of a stream
}

func (x *Exchange) streamPiece(piece []byte, end bool) Reply {
	err := x.stream.Decode(piece, x.writer)
	if err == nil && end && !x.writer.IsDone() {
		if err = x.stream.Close(x.writer); err == nil {
			x.writer.Done()
		}
	}
	switch {
	case x.writer.IsDone():
		x.record.Outcome = OutcomeFinished
		x.finish()
	case err != nil:
		x.writer.Error(x.fail(err))
	}
	return Reply{ReplaceBody: true, Body: x.writer.Take()}
}

// replaceByError gives the client an error in place of a body that came whole.
func (x *Exchange) replaceByError(err error) Reply {
	e := x.fail(err)
	body := e.AppendJSON(nil)
	reply := Reply{ReplaceBody: true, Body: body, Set: Headers{{":status", strconv.Itoa(e.Status)}, {"content-length", strconv.Itoa(len(body))}}}
	for name, values := range e.Header() {
		reply.Set = append(reply.Set, Header{strings.ToLower(name), values[0]})
	}
	return reply
}
