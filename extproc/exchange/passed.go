package exchange

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/extproc/passages/passed"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/pipeline"
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
	if x.c.Record.ID == "" { // from the job service
		x.c.Record.ID = x.c.Env.NewID()
	}
	next := passed.New(&x.c, &x.answer, p, path, h, named)
	if !end && next.NeedsBody() {
		if e := x.room.Announced(&x.c, h); e != nil {
			return x.c.Reject(e, "mg_no_room")
		}
		x.state, x.pending = awaitBody, next
		return x.c.Begun(Reply{ResponseBody: None})
	}
	reply := x.send(ctx, next)
	if reply.Immediate == nil {
		reply = next.Pass(reply)
	}
	return reply
}

// send sends a passed request. It reserves the expected usage, estimated without reading the body.
func (x *Exchange) send(ctx context.Context, next *passed.Passage) Reply {
	reply, err := next.Plan()
	if err != nil {
		return x.c.Reject(pipeline.ClientError(err), "mg_no_plan")
	}
	x.state, x.pending, x.passage = awaitResponse, nil, next
	if x.c.Key != nil {
		if !x.c.Active.Acquire(&x.c.Env.Gates) { // it cannot wait: its body is on its way
			return x.c.Reject(call.Overloaded(), "mg_overloaded")
		}
		if e := x.reserve(ctx, next.Demand()); e != nil {
			return x.c.Reject(e, "mg_limited")
		}
		reply = x.sendOut(reply)
	}
	return next.Withhold(reply)
}
