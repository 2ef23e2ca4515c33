package chain

import (
	"context"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/identity"
	"github.com/modelgate/modelgate/extproc/passages/jobs"
	"github.com/modelgate/modelgate/extproc/passages/local"
	"github.com/modelgate/modelgate/extproc/passages/passed"
	"github.com/modelgate/modelgate/extproc/passages/realtime"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inbound/gemini"
)

// Headers handles the headers of a request. It decides everything that does not depend on the body. The context ends
// with the exchange.
func (x *Chain) Headers(ctx context.Context, h call.Headers, end bool) call.Reply {
	c := x.c
	c.Headers = h
	reply := x.headers(ctx, end)
	c.Headers = nil
	return reply
}

func (x *Chain) headers(ctx context.Context, end bool) call.Reply {
	c, h := x.c, x.c.Headers
	path, query, asked := strings.Cut(h.Get(":path"), "?")
	op := dialects.Find(path, query)
	if c.Config != nil {
		host := h.Get(":authority")
		c.AtHost = c.Config.AtHost(host)
		if op == nil && c.AtHost != nil {
			var own string
			own, op = x.own(host, path, query)
			path, asked = own, asked || own != path
		}
	}
	if op != nil {
		c.Dialect = op.Dialect
	} else if isModels(path) {
		c.Dialect = dialects.Of(path, h.Get)
	}
	method := h.Get(":method")
	c.Plain = !asked
	c.Record.Method, c.Record.Path, c.Record.RequestID = method, path, h.Get("x-request-id")
	c.BeginSpan(h)
	if c.Config == nil {
		return c.Reject(notReady(), "mg_not_ready")
	}
	if reply := x.run(ctx, onArrival); reply != nil {
		return *reply
	}
	if c.Internal {
		c.Record.Charge, c.Record.Again = strings.CutSuffix(h.Get(envoy.HeaderCharge), envoy.ChargeAgain)
		if name := h.Get(envoy.HeaderProvider); name != "" {
			return x.passInternal(ctx, name, query, end)
		}
	}
	route := c.Config.Routes.Find(path)
	routed := route != nil && !strings.HasPrefix(path, "/v1/")
	if routed { // what has the path of another API is passed as an operator wants it
		op, c.Dialect = nil, dialects.Default
	}
	c.Unserved = route == nil && op == nil && !strings.HasPrefix(path, "/v1/") && !isModels(path)
	c.Endpoint = path
	if op != nil && op.Dialect == gemini.Dialect {
		c.Endpoint = gemini.Beta(path) // who may list models may not use them for that
	}
	if reply := x.run(ctx, onClient); reply != nil {
		return *reply
	}
	return x.choose(ctx, op, route, query, end)
}

// own returns the gateway's own path for one that only a provider has, whose host the client has called, and its
// operation. A Route for the path comes first.
func (x *Chain) own(host, path, query string) (string, *inbound.Operation) {
	if isModels(path) || x.c.Config.Routes.Find(path) != nil {
		return path, nil
	}
	for _, own := range x.c.Config.OwnPaths(host, path) {
		if op := dialects.Find(own, query); op != nil || isModels(own) {
			return own, op
		}
	}
	return path, nil
}

// choose chooses the passage of a client's request, and has the request take it.
func (x *Chain) choose(ctx context.Context, op *inbound.Operation, route *routing.Route, query string,
	end bool) call.Reply {
	c := x.c
	method, path := c.Record.Method, c.Record.Path
	if name := jobs.Operation(c.Config, method, path); name != "" && !c.Internal {
		c.Record.Operation = name
		p := jobs.New(c, x.answer)
		x.passage = p
		return p.Send(ctx)
	}
	switch {
	case op == nil && !c.Internal && realtime.Opens(path, c.Headers, route != nil):
		return x.openSession(ctx, query, end)
	case op != nil:
		return x.await(ctx, op, end)
	case route != nil && (!strings.HasPrefix(path, "/v1/") || !isReport(path) && !isModels(path)):
		c.Record.Operation = "route"
		return x.passRoute(ctx, route, query, end)
	}
	return x.lookUp(ctx, method, path, query)
}

func notReady() *openai.Error {
	return openai.CodeGatewayUnavailable.New("The gateway has no configuration yet. Please retry.").After(1e9)
}

func isReport(path string) bool { return strings.HasPrefix(path, local.ReportsPath) }

func isModels(path string) bool {
	_, ok := modelAsked(path)
	return ok
}

// modelAsked returns the model whose facts a path asks for, in any dialect. An empty one stands for the list of all.
func modelAsked(path string) (id string, ok bool) {
	for _, list := range [...]string{"/v1/models", gemini.Prefix + "models"} {
		if rest, found := strings.CutPrefix(path, list); found && (rest == "" || rest[0] == '/' && rest != "/") {
			return strings.TrimPrefix(rest, "/"), true
		}
	}
	return "", false
}

// lookUp answers a request that needs no provider.
func (x *Chain) lookUp(ctx context.Context, method, path, query string) call.Reply {
	c, here := x.c, local.New(x.c, x.answer.Account)
	switch {
	case isReport(path):
		c.Record.Operation = "reports"
		if !call.IsRead(method) {
			return c.Reject(call.WrongMethod(method, path, http.MethodGet, http.MethodHead), "mg_method")
		}
		return here.Report(ctx, strings.TrimPrefix(path, local.ReportsPath), query)
	case isModels(path):
		c.Record.Operation = "models"
		id, _ := modelAsked(path)
		switch {
		case call.IsRead(method):
			return here.Models(id)
		case c.Dialect == gemini.Dialect: // such as a method of a model that there is not
			return c.Reject(notServed(method, path), "mg_unknown_url")
		case id != "":
			return c.Reject(call.WrongMethod(method, path, http.MethodGet, http.MethodHead, http.MethodDelete), "mg_method")
		}
		return c.Reject(call.WrongMethod(method, path, http.MethodGet, http.MethodHead), "mg_method")
	}
	return c.Reject(notServed(method, path), "mg_unknown_url")
}

// openSession handles the handshake of a session, which has no body.
func (x *Chain) openSession(ctx context.Context, query string, end bool) call.Reply {
	c := x.c
	s, refused := realtime.New(c, x.answer, end)
	if refused != nil {
		return *refused
	}
	c.Record.ID = c.Env.NewID()
	if reply := x.run(ctx, onEntry); reply != nil {
		return *reply
	}
	asked, e := realtime.Model(query)
	if e != nil {
		return *x.answer.Account.RejectBody(ctx, e, "mg_bad_request")
	}
	c.Request.Request = inbound.Request{Stream: true, Encoder: realtime.Encoder{}}
	if reply := x.resolve(ctx, asked); reply != nil {
		return *reply
	}
	s.SetKey(identity.Authorization(c))
	x.sends = s
	return x.decide(ctx)
}

// passRoute sends a request unchanged to the provider of a route. Its body is not shown, unless the provider requires
// a signature of it.
func (x *Chain) passRoute(ctx context.Context, r *routing.Route, query string, end bool) call.Reply {
	c := x.c
	p := c.Config.Providers[r.Provider]
	if e := passed.Unserved(c, p, r.Provider); e != nil {
		return c.Reject(e, "mg_no_plan")
	}
	// The answer would repeat the request with the credential, and not be an error.
	if c.Record.Method == http.MethodTrace {
		e := call.WrongMethod(c.Record.Method, c.Record.Path, http.MethodPost, http.MethodGet, http.MethodHead,
			http.MethodPut, http.MethodPatch, http.MethodDelete)
		return c.Reject(e, "mg_method")
	}
	c.Record.ID = c.Env.NewID()
	if reply := x.run(ctx, onEntry); reply != nil {
		return *reply
	}
	return x.pass(ctx, p, r.Rewrite(c.Record.Path), query, r.Headers, end)
}

// passInternal sends a request of the job service unchanged to a provider, with the provider's credential.
func (x *Chain) passInternal(ctx context.Context, name, query string, end bool) call.Reply {
	c := x.c
	c.Record.Operation = "provider"
	p := c.Config.Providers[name]
	if p.IsWaiting() {
		return c.Reject(routing.WaitingError(), "mg_no_provider")
	}
	if p == nil || p.Config.GetDisabled() {
		return c.Reject(openai.CodeProviderNotFound.New("There is no provider '%s', or it is disabled.",
			name), "mg_no_provider")
	}
	c.Record.ID = c.Env.NewID()
	return x.pass(ctx, p.AtRoot(), p.Join(c.Record.Path), query, nil, end)
}

// pass sends a request unchanged to a provider, under a path relative to the provider's endpoint. Named are headers
// that go on although they change what the provider's server does.
func (x *Chain) pass(ctx context.Context, p *routing.Provider, path, query string, named []string,
	end bool) call.Reply {
	c := x.c
	if routing.HasParentSegment(c.Record.Path) {
		return c.Reject(routing.ParentSegmentError(), "mg_bad_path")
	}
	if query != "" {
		path += "?" + query
	}
	next := passed.New(c, x.answer, p, path, named)
	x.sends = next
	if end || !next.NeedsBody() {
		return x.decide(ctx)
	}
	for _, s := range [...]stage{onBody, onContent} {
		if reply := x.run(ctx, s); reply != nil {
			return *reply
		}
	}
	x.waits = true
	return c.Begun(call.Reply{ResponseBody: call.None})
}
