package exchange

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/tokens"
)

// passAnswer handles the headers of an answer that passes unchanged.
func (x *Exchange) passAnswer(h Headers, reply Reply) Reply {
	reply = x.answer.PassHeaders(h, reply)
	switch {
	case x.c.Whole:
		x.state = inJudged
	case x.answer.Watch != nil:
		x.state = inPassed
	}
	x.cached.Collect(x.c.Media)
	return reply
}

// A passing is a request for a Route, or a request of the job service for a provider.
type passing struct {
	provider *routing.Provider
	method   string
	request  provider.Request
	remove   []string
	size     int    // of the body, in bytes
	media    string // of the body
	packed   bool   // the body is compressed
}

// maxPassed bounds the body of a Route's request that is counted as text.
const maxPassed = 256 << 10

// demand returns the expected usage of the request. A body that is compressed or not text may have as many tokens as a
// text of its length, but is not charged for them.
func (next *passing) demand() metering.Demand {
	d := metering.Demand{Output: -1, Answers: 1, HourCache: metering.AsksHourCache(next.request.Body),
		Passed: next.request.Body == nil && next.size > 0}
	kind, _, _ := strings.Cut(next.media, "/")
	switch {
	case next.packed && next.size > 0:
		d.Unread = tokens.Estimate(maxPassed)
	case kind == "multipart", kind == "audio", kind == "image", kind == "video", next.media == "application/octet-stream":
		d.Unread = tokens.Estimate(min(next.size, maxPassed))
	default:
		d.Input = tokens.Estimate(min(next.size, maxPassed))
	}
	return d
}

// passRequest sends a request unchanged to the provider of a route. Its body is not shown, unless the provider
// requires a signature of it.
func (x *Exchange) passRequest(ctx context.Context, r *routing.Route, h Headers, query string, end bool) Reply {
	p := x.c.Config.Providers[r.Provider]
	if p.IsWaiting() {
		return x.c.Reject(routing.WaitingError(), "mg_no_plan")
	}
	if p == nil || p.Config.GetDisabled() {
		return x.c.Reject(openai.CodeNoProvider.New("The provider of this path is not enabled."), "mg_no_plan")
	}
	// The answer would repeat the request with the credential, and not be an error.
	if x.c.Record.Method == http.MethodTrace {
		return x.c.Reject(call.WrongMethod(x.c.Record.Method, x.c.Record.Path,
			http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete), "mg_method")
	}
	// If a key is restricted to models, it may use a path for any model only if it may use all models of the provider.
	if !routing.Allows(x.c.Key, r.Provider+"/*") {
		x.c.Record.RefusedBy = "key/" + x.c.Key.Name + " models"
		return x.c.Reject(openai.CodeRouteNotAllowed.New("This key is bound to models and may not use paths that are passed to the provider '%s' as they are.",
			r.Provider), "mg_no_plan")
	}
	x.c.Record.ID = x.c.Env.NewID()
	if e := x.account.Enter(ctx, x.account.PreBodyRules()); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	if e := x.unguarded(); e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	if e := policies.Decide(&x.c); e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	return x.pass(ctx, p, r.Rewrite(x.c.Record.Path), h, query, r.Headers, end)
}

// pass sends a request unchanged to a provider, under a path relative to the provider's endpoint. Named are headers
// that go on although they change what the provider's server does.
func (x *Exchange) pass(ctx context.Context, p *routing.Provider, path string, h Headers, query string,
	named []string, end bool) Reply {
	if routing.HasParentSegment(x.c.Record.Path) {
		return x.c.Reject(routing.ParentSegmentError(), "mg_bad_path")
	}
	if query != "" {
		path += "?" + query
	}
	next := &passing{provider: p, method: x.c.Record.Method, request: provider.Request{Path: path, Header: http.Header{}}}
	if t := h.Get("content-type"); t != "" {
		next.request.Header.Set("Content-Type", t)
	}
	for i := range h {
		if isWithheld(h[i].Name, p.Vendor.CredentialHeaders, named) {
			next.remove = append(next.remove, h[i].Name)
		}
	}
	if x.c.Record.ID == "" { // from the job service
		x.c.Record.ID = x.c.Env.NewID()
	}
	next.media, next.packed = call.MediaType(h.Get("content-type")), h.Get("content-encoding") != ""
	size, err := strconv.Atoi(h.Get("content-length"))
	// the reservation follows from its length
	if next.size = size; !end && (p.Vendor.SignsBody || err != nil && x.account.WillMeter(p.Config.GetName())) {
		if e := x.room.Announced(&x.c, h); e != nil {
			return x.c.Reject(e, "mg_no_room")
		}
		x.state, x.pending = awaitBody, next
		return x.c.Begun(Reply{ResponseBody: None})
	}
	reply := x.send(ctx, next)
	if reply.Immediate == nil {
		reply.PassRequest, reply.ResponseBody = true, None
		reply = x.c.Begun(reply)
		x.unread = true
	}
	return reply
}

// passSigned sends a request to a provider that requires a signature of the body.
func (x *Exchange) passSigned(ctx context.Context, body []byte) Reply {
	next := x.pending
	next.request.Body, next.size = body, len(body)
	return x.send(ctx, next)
}

// send sends a passed request. It reserves the expected usage, estimated without reading the body.
func (x *Exchange) send(ctx context.Context, next *passing) Reply {
	attempt, err := next.provider.Attempt(next.method, &next.request, x.c.Record.Start)
	if err != nil {
		return x.c.Reject(pipeline.ClientError(err), "mg_no_plan")
	}
	target := routing.Target{Provider: next.provider, Model: x.modelIn(next.provider.Vendor.Name, next.request.Path),
		Cluster: next.provider.Cluster(1, x.c.HasPlaces)}
	x.c.Active = routing.NewPassed(x.c.Record.ID, target, &x.c)
	x.state, x.pending = awaitResponse, nil
	x.c.Active.SetTrace(target, &attempt)
	reply := Reply{Set: attempt.Header, Plan: x.c.Active}
	if x.c.Key != nil {
		if !x.c.Active.Acquire(&x.c.Env.Gates) { // it cannot wait: its body is on its way
			return x.c.Reject(call.Overloaded(), "mg_overloaded")
		}
		if e := x.reserve(ctx, next.demand()); e != nil {
			return x.c.Reject(e, "mg_limited")
		}
		reply = x.sendOut(reply)
	}
	for _, name := range next.remove {
		if reply.Set.Get(name) == "" {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// passRouted passes the answer to a request of a Route, with any status.
func (x *Exchange) passRouted(h Headers, status int, end bool) Reply {
	var reply Reply
	if !x.c.Internal { // the job service reads the provider's own answer
		reply = x.clientHeaders(h)
	}
	if x.account.Meters() && x.account.Begun && !end {
		if x.watchRoute(h, &reply) {
			return reply
		}
		x.account.Opaque = true
	}
	x.c.PassUnseen(&reply)
	switch {
	case answer.IsClientError(status):
		x.c.Record.Outcome = metering.OutcomeRejected
	case status >= 400:
		x.c.Record.Outcome = metering.OutcomeFailed
	}
	if end {
		x.c.Finish()
	}
	if isError(status) {
		return x.scrubRoute(h, status, reply)
	}
	return reply
}

// watchRoute watches the body of an answer that may report its usage.
func (x *Exchange) watchRoute(h Headers, reply *Reply) bool {
	switch media := call.MediaType(h.Get("content-type")); {
	case h.Get("content-encoding") != "":
		return false
	case media == "text/event-stream":
		x.answer.Watch, x.c.Record.Stream = &metering.SilentWatch{}, true
	case media == answer.TypeJSON:
		x.answer.Watch = &metering.DocumentWatch{}
	default:
		return false
	}
	x.state, reply.ResponseBody = inPassed, Streamed
	reply.PassRequest = x.unread
	return true
}

// clientHeaders removes headers that are for the gateway from an answer to a client.
func (x *Exchange) clientHeaders(h Headers) Reply {
	reply := Reply{Set: append(Headers{{Name: answer.HeaderProvider, Value: x.c.Record.Provider},
		{Name: "x-request-id", Value: x.c.Record.RequestID}}, x.c.LimitHeaders...)}
	if id := answer.UpstreamID(h); id != "" {
		reply.Set = append(reply.Set, Header{Name: answer.HeaderUpstream, Value: id})
	}
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.BackThroughRoute(name) && reply.Set.Get(name) == "" {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}
