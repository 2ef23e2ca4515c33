package exchange

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/cache"
	"github.com/modelgate/modelgate/extproc/filters/identity"
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/passages/jobs"
	"github.com/modelgate/modelgate/extproc/passages/local"
	"github.com/modelgate/modelgate/extproc/passages/realtime"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inbound/gemini"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// RequestHeaders handles the headers of a request. It decides everything that does not depend on the body. The context
// ends with the exchange.
func (x *Exchange) RequestHeaders(ctx context.Context, h Headers, end bool) Reply {
	path, query, _ := strings.Cut(h.Get(":path"), "?")
	op := dialects.Find(path, query)
	if op != nil {
		x.c.Dialect = op.Dialect
	} else if isModels(path) {
		x.c.Dialect = dialects.Of(path, h.Get)
	}
	method := h.Get(":method")
	x.c.Record.Method, x.c.Record.Path, x.c.Record.RequestID = method, path, h.Get("x-request-id")
	x.c.BeginSpan(h)
	if x.c.Config == nil {
		return x.c.Reject(notReady(), "mg_not_ready")
	}
	if e := room.Memory(&x.c); e != nil {
		return x.c.Reject(e, "mg_no_memory")
	}
	if x.c.Internal {
		x.c.Record.Charge = h.Get(envoy.HeaderCharge)
		if name := h.Get(envoy.HeaderProvider); name != "" {
			return x.passInternal(ctx, name, h, query, end)
		}
	}
	route := x.c.Config.Routes.Find(path)
	routed := route != nil && !strings.HasPrefix(path, "/v1/")
	if routed { // what has the path of another API is passed as an operator wants it
		op, x.c.Dialect = nil, dialects.Default
	}
	if route == nil && op == nil && !strings.HasPrefix(path, "/v1/") && !isModels(path) {
		_ = identity.Admit(&x.c, h, x.gateway, path) // a client with a valid key is not a stranger
		return identity.Refuse(&x.c, h, call.UnknownURL(method, path), "mg_unknown_url")
	}
	endpoint := path
	if op != nil && op.Dialect == gemini.Dialect {
		endpoint = gemini.Beta(path) // who may list models may not use them for that
	}
	if e := identity.Admit(&x.c, h, x.gateway, endpoint); e != nil {
		return identity.Refuse(&x.c, h, e, "mg_unauthorized")
	}
	if name := jobs.Operation(x.c.Config, method, path); name != "" && !x.c.Internal {
		x.c.Record.Operation = name
		return x.passToJobs(ctx, h)
	}
	if op == nil && !x.c.Internal && realtime.Opens(path, h, route != nil) {
		return x.openSession(ctx, h, query, end)
	}
	if op != nil {
		return x.awaitRequest(ctx, op, h, end)
	}
	if routed || route != nil && !isReport(path) && !isModels(path) {
		x.c.Record.Operation = "route"
		return x.passRequest(ctx, route, h, query, end)
	}
	return x.lookUp(ctx, method, path, query)
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

// local is the passage of a request that the gateway answers.
func (x *Exchange) local() local.Passage { return local.New(&x.c, &x.account) }

// lookUp answers a request that needs no provider.
func (x *Exchange) lookUp(ctx context.Context, method, path, query string) Reply {
	switch {
	case isReport(path):
		x.c.Record.Operation = "reports"
		if !call.IsRead(method) {
			return x.c.Reject(call.WrongMethod(method, path, http.MethodGet, http.MethodHead), "mg_method")
		}
		return x.local().Report(ctx, strings.TrimPrefix(path, local.ReportsPath), query)
	case isModels(path):
		x.c.Record.Operation = "models"
		id, _ := modelAsked(path)
		switch {
		case call.IsRead(method):
			return x.local().Models(id)
		case x.c.Dialect == gemini.Dialect: // such as a method of a model that there is not
			return x.c.Reject(notServed(method, path), "mg_unknown_url")
		case id != "":
			return x.c.Reject(call.WrongMethod(method, path, http.MethodGet, http.MethodHead, http.MethodDelete), "mg_method")
		}
		return x.c.Reject(call.WrongMethod(method, path, http.MethodGet, http.MethodHead), "mg_method")
	}
	return x.c.Reject(notServed(method, path), "mg_unknown_url")
}

// awaitRequest waits for the body of a request, and removes headers that the provider must not get.
func (x *Exchange) awaitRequest(ctx context.Context, op *inbound.Operation, h Headers, end bool) Reply {
	x.c.Operation, x.c.Record.Operation = op, op.Name
	if method := x.c.Record.Method; method != http.MethodPost {
		return x.c.Reject(call.WrongMethod(method, x.c.Record.Path, http.MethodPost), "mg_method")
	}
	x.c.Head = inbound.Head{Path: x.c.Record.Path, ContentType: h.Get("content-type"), Betas: h.Get("anthropic-beta"),
		Carrier: x.c.Config.Directory.Carriers.For(x.c.Key.Organization, x.c.Key.Name)}
	media := call.MediaType(x.c.Head.ContentType)
	if media != "" && media != answer.TypeJSON && (!op.AcceptsForms || media != contentTypeForm) {
		accepted := []string{answer.TypeJSON}
		if op.AcceptsForms {
			accepted = append(accepted, contentTypeForm)
		}
		return x.c.Reject(openai.UnsupportedContentType(telemetry.Clip(x.c.Head.ContentType), accepted...),
			"mg_content_type")
	}
	switch e := h.Get("content-encoding"); strings.ToLower(e) {
	case "", "identity":
	case "gzip":
		x.gzip = true
	default:
		return x.c.Reject(openai.UnsupportedContentEncoding(telemetry.Clip(e), "as it is, or with gzip"),
			"mg_content_encoding")
	}
	if end {
		return x.c.Reject(openai.NoBody(" with "+op.Required), "mg_no_body")
	}
	x.c.Record.ID = x.c.Env.NewID()
	if e := x.account.Enter(ctx, x.account.PreBodyRules()); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	if e := x.room.Announced(&x.c, h); e != nil {
		return x.c.Reject(e, "mg_no_room")
	}
	x.account.WantsCost = h.Get(answer.HeaderTellCost) == "true"
	if len(x.c.Config.Caches) > 0 {
		x.cached = cache.New(&x.c, h.Get("cache-control"))
	}
	reply := x.c.Begun(Reply{ResponseBody: Streamed})
	if op.Streams || !op.AcceptsForms && x.c.Env.Again != nil {
		x.c.Duplex, reply.ResponseBody = true, Duplex
	}
	reply.Remove = x.c.Removed[:0]
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToProvider(name) {
			reply.Remove = append(reply.Remove, name)
		}
	}
	x.state = awaitBody
	return reply
}

// RequestBody handles the complete body of a request, plans its attempts, and reserves the expected usage. The context
// ends with the exchange.
func (x *Exchange) RequestBody(ctx context.Context, body []byte) Reply {
	if e := x.room.Request(&x.c, int64(len(body))); e != nil {
		return x.c.Reject(e, "mg_no_room")
	}
	if x.pending != nil {
		x.pending.SetBody(body)
		return x.send(ctx, x.pending)
	}
	if x.gzip {
		plain, e := x.room.Gunzip(&x.c, body)
		if e != nil {
			return x.rejectBody(ctx, e, "mg_bad_gzip")
		}
		body = plain
	}
	parsed, err := x.c.Operation.Parse(x.c.Head, body)
	if err != nil {
		return x.rejectBody(ctx, dialects.Misdirected(x.c.Operation, body, pipeline.ClientError(err)), "mg_bad_request")
	}
	x.c.Request = request.Request{Request: parsed, Body: body, Given: parsed.Sent, Size: len(body)}
	r := &x.c.Request
	if s := x.stateOf(); s != inbound.Stateless {
		return x.passStateful(ctx, s)
	}
	x.c.WantsStream, x.c.IncludeUsage, x.c.Echo = r.Stream, r.IncludeUsage, r.Echo
	x.c.Record.Stream = r.Stream
	asked := r.Model
	if r.Model, err = x.c.Config.Resolve(x.c.Key, asked); err != nil {
		if x.c.Record.RefusedBy = x.c.Config.Withholder(x.c.Key, asked); x.c.Record.RefusedBy != "" { // it exists
			x.c.Record.Model, x.c.Record.Label = asked, x.c.Config.Label(asked)
		}
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_no_model")
	}
	return x.guardRequest(ctx)
}

// afterGuards goes on with a request that guardrails let pass.
func (x *Exchange) afterGuards(ctx context.Context) Reply {
	if reply, done := x.recall(ctx); done {
		return reply
	}
	return x.goOn(ctx)
}

// goOn plans the attempts of a request that is to be sent.
func (x *Exchange) goOn(ctx context.Context) Reply {
	x.c.Offers()
	first, free, err := x.plan(ctx)
	if here, ok := errors.AsType[*inbound.CountHere](err); ok {
		return x.local().Count(ctx, here)
	}
	if err != nil {
		e := dialects.Misdirected(x.c.Operation, x.c.Request.Body, pipeline.ClientError(err))
		return x.rejectBody(ctx, e, "mg_no_plan")
	}
	d := x.demand()
	e := x.reserve(ctx, d)
	x.keep.Request(&x.c, x.account.Rules.Bodies)
	if e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	if e, details := x.unmetered(d); e != nil {
		return x.rejectBody(ctx, e, details)
	}
	x.account.Text.Request(first.Body)
	reply := relayed(x, first, Reply{Set: first.Header, ReplaceBody: true, Body: first.Body, Plan: x.c.Active})
	if !free {
		queued := reply
		x.state, x.queued = awaitTurn, &queued
		return Reply{Queue: true}
	}
	return x.sendOut(reply)
}

// unmetered returns the error of a request whose usage would not be counted under limits that count it, and the
// details for Envoy's log.
func (x *Exchange) unmetered(d metering.Demand) (*openai.Error, string) {
	if d.Background && x.account.Meters() { // its usage would be reported only to later requests
		return openai.CodeUnsupportedParameter.On("background",
			"This key has limits of tokens or a budget, under which 'background' is not supported."), "mg_background"
	}
	return x.account.Unpriced(d.Surcharges), "mg_unpriced"
}

// demand returns what a request may use.
func (x *Exchange) demand() metering.Demand {
	d := metering.DemandOf(x.c.Operation, &x.c.Request.Request, x.c.Request.Body, x.c.Priced())
	if x.c.Operation.Free {
		return metering.Demand{User: d.User, Answers: 1}
	}
	return d
}

func notReady() *openai.Error {
	return openai.CodeGatewayUnavailable.New("The gateway has no configuration yet. Please retry.").After(1e9)
}
