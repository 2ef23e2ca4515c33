package exchange

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/identity"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// realtime is the operation that opens a session of the Realtime API. A session costs nothing by itself: its responses
// have records of their own.
var realtime = &inbound.Operation{Dialect: dialects.Default, Path: envoy.PathRealtime, Name: "realtime", Free: true}

// A browser cannot set headers of a WebSocket. Its key is in one of the subprotocols that it offers, and so is the
// version of the API (https://platform.openai.com/docs/guides/realtime-websocket).
const (
	protocol        = "realtime"
	protocolBeta    = "openai-beta.realtime-v1"
	headerUpgrade   = "upgrade"
	upgradedTo      = "websocket"
	statusUpgraded  = http.StatusSwitchingProtocols
	notUpgraded     = "websocket_handshake_unsuccessful" // Envoy's code details
	parameterModel  = "model"
	headerSafety    = "openai-safety-identifier"
	headerBeta      = "openai-beta"
	headerAccept    = "sec-websocket-accept"
	headerWebSocket = "sec-websocket-key"
	headerVersion   = "sec-websocket-version"
)

// forwardedToSession are the headers of a handshake that the provider gets. Without sec-websocket-extensions the
// frames are not compressed, and can be read.
var forwardedToSession = map[string]bool{"connection": true, headerUpgrade: true, headerWebSocket: true,
	headerVersion: true, call.HeaderProtocol: true, headerBeta: true, headerSafety: true}

// forwardedFromSession are the headers of the answer to a handshake that the client gets.
var forwardedFromSession = map[string]bool{"connection": true, headerUpgrade: true, headerAccept: true}

// opensSession reports whether a request is for the Realtime API. A Route may have the path's other requests, such as
// those of WebRTC.
func opensSession(path string, h Headers, routed bool) bool {
	return path == envoy.PathRealtime && (!routed || isWebSocket(h))
}

func isWebSocket(h Headers) bool { return strings.EqualFold(h.Get(headerUpgrade), upgradedTo) }

// openSession handles the handshake of a session, which has no body.
func (x *Exchange) openSession(ctx context.Context, h Headers, query string, end bool) Reply {
	x.c.Operation, x.c.Record.Operation, x.c.Record.Stream = realtime, realtime.Name, true
	switch {
	case x.c.Record.Method != http.MethodGet:
		return x.c.Reject(call.WrongMethod(x.c.Record.Method, x.c.Record.Path, http.MethodGet), "mg_method")
	case end || !isWebSocket(h):
		return x.c.Reject(openai.CodeUpgradeRequired.New("The Realtime API is served over WebSocket, with HTTP/1.1. Open the URL with a WebSocket client."), "mg_no_upgrade")
	}
	x.c.Record.ID = x.c.Env.NewID()
	if e := x.account.Enter(ctx, x.account.PreBodyRules()); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	if e := x.unguarded(); e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	asked, e := sessionModel(query)
	if e != nil {
		return x.rejectBody(ctx, e, "mg_bad_request")
	}
	model, err := x.c.Config.Resolve(x.c.Key, asked)
	if err != nil {
		if x.c.Record.RefusedBy = x.c.Config.Withholder(x.c.Key, asked); x.c.Record.RefusedBy != "" { // it exists
			x.c.Record.Model, x.c.Record.Label = asked, x.c.Config.Label(asked)
		}
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_no_model")
	}
	x.c.Request.Request = inbound.Request{Model: model, Stream: true, Encoder: session{}}
	if e = policies.Decide(&x.c); e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	_, free, err := x.plan(ctx)
	if err != nil {
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_no_plan")
	}
	if !free { // a client that waits for its handshake has nothing to say so with
		return x.c.Reject(call.Overloaded(), "mg_overloaded")
	}
	// This is refused if a limit is used up, and counts the request. What responses use has reservations of its own.
	if e := x.reserve(ctx, metering.Demand{Input: 1, Output: 1, Answers: 1}); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.account.Demand.Input = 0 // nothing is charged for it
	x.session = newLive(x, h)
	if e := x.holdFirst(ctx); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.c.Duplex = true
	return x.sendOut(x.handshake(h))
}

// handshake returns the reply that lets a handshake go to the providers. Their upstream filter sets the path and the
// credential.
func (x *Exchange) handshake(h Headers) Reply {
	reply := x.c.Begun(Reply{Plan: x.c.Active, PassRequest: true, ResponseBody: Duplex, Remove: x.c.Removed[:0]})
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToProvider(name) && !forwardedToSession[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	offered := x.session.offered
	switch {
	case len(offered) > 0:
		reply.Set = append(reply.Set, Header{Name: call.HeaderProtocol, Value: strings.Join(offered, ", ")})
	case h.Get(call.HeaderProtocol) != "":
		reply.Remove = append(reply.Remove, call.HeaderProtocol)
	}
	return reply
}

// sessionModel returns the model that the parameters of a handshake ask for. It is the only parameter: others attach
// to a call, or choose a session without a model, whose usage could not be charged.
func sessionModel(query string) (string, *openai.Error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", openai.BadValue("query", "The parameters of the URL cannot be read.")
	}
	for name := range values {
		if name != parameterModel {
			return "", openai.CodeUnsupportedParameter.On(telemetry.Clip(name),
				"The parameter '%s' of a session is not supported. Only 'model' is.", telemetry.Clip(name))
		}
	}
	if values.Get(parameterModel) == "" {
		return "", openai.CodeMissingRequiredParameter.On(parameterModel,
			"Missing required parameter: 'model'. Name the model in the URL: wss://.../v1/realtime?model=NAME")
	}
	return values.Get(parameterModel), nil
}

// session builds the handshake for a target.
type session struct{}

// Encode implements inbound.Encoder.
func (session) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Realtime == nil {
		return provider.Request{}, nil, openai.CodeUnsupportedEndpoint.On(parameterModel,
			"The provider '%s' does not serve the Realtime API. Choose another model.", t.Config.GetName())
	}
	path, err := v.Realtime(t)
	return provider.Request{Path: path, Header: http.Header{}}, nil, err
}

// newLive returns the state of a session that is to be opened.
func newLive(x *Exchange, h Headers) *live {
	s := &live{from: h.Get(envoy.HeaderAddress), key: secret.New(identity.Authorization(&x.c, h)),
		since: x.c.Record.Start}
	for _, p := range call.Protocols(h) {
		if p == protocol || p == protocolBeta { // the others have the key, or select an account
			s.offered = append(s.offered, p)
		}
	}
	if set := x.account.Rules; x.c.Env.Limits != nil && set != nil && set.Metered {
		s.rules = set.Only(metered...)
	}
	return s
}
