// Package realtime has the sessions of the Realtime API. Their frames pass, and those of the provider are read in
// passing: each response of a session is charged as a request of its own.
package realtime

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Operation is the operation that opens a session of the Realtime API. A session costs nothing by itself: its
// responses have records of their own.
var Operation = &inbound.Operation{Dialect: dialects.Default, Path: envoy.PathRealtime, Name: "realtime", Free: true}

// A browser cannot set headers of a WebSocket. The version of the API is in one of the subprotocols that it offers
// (https://platform.openai.com/docs/guides/realtime-websocket).
const (
	protocol        = "realtime"
	protocolBeta    = "openai-beta.realtime-v1"
	headerUpgrade   = "upgrade"
	upgradedTo      = "websocket"
	StatusUpgraded  = http.StatusSwitchingProtocols
	NotUpgraded     = "websocket_handshake_unsuccessful" // Envoy's code details
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

// Opens reports whether a request is for the Realtime API. A Route may have the path's other requests, such as
// those of WebRTC.
func Opens(path string, h call.Headers, routed bool) bool {
	return path == envoy.PathRealtime && (!routed || isWebSocket(h))
}

func isWebSocket(h call.Headers) bool { return strings.EqualFold(h.Get(headerUpgrade), upgradedTo) }

// Refuse returns the error of a request that opens no session, and the details for Envoy's log.
func Refuse(c *call.Call, h call.Headers, end bool) (e *openai.Error, details string) {
	switch {
	case c.Record.Method != http.MethodGet:
		return call.WrongMethod(c.Record.Method, c.Record.Path, http.MethodGet), "mg_method"
	case end || !isWebSocket(h):
		return openai.CodeUpgradeRequired.New("The Realtime API is served over WebSocket, with HTTP/1.1. Open the URL with a WebSocket client."), "mg_no_upgrade"
	}
	return nil, ""
}

// Handshake returns the reply that lets a handshake go to the providers. Their upstream filter sets the path and the
// credential.
func (s *Session) Handshake(h call.Headers) call.Reply {
	reply := s.c.Begun(call.Reply{Plan: s.c.Active, PassRequest: true, ResponseBody: call.Duplex,
		Remove: s.c.Removed[:0]})
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToProvider(name) && !forwardedToSession[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	offered := s.offered
	switch {
	case len(offered) > 0:
		reply.Set = append(reply.Set, call.Header{Name: call.HeaderProtocol, Value: strings.Join(offered, ", ")})
	case h.Get(call.HeaderProtocol) != "":
		reply.Remove = append(reply.Remove, call.HeaderProtocol)
	}
	return reply
}

// Model returns the model that the parameters of a handshake ask for. It is the only parameter: others attach
// to a call, or choose a session without a model, whose usage could not be charged.
func Model(query string) (string, *openai.Error) {
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

// Encoder builds the handshake for a target.
type Encoder struct{}

// Encode implements inbound.Encoder.
func (Encoder) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Realtime == nil {
		return provider.Request{}, nil, openai.CodeUnsupportedEndpoint.On(parameterModel,
			"The provider '%s' does not serve the Realtime API. Choose another model.", t.Config.GetName())
	}
	path, err := v.Realtime(t)
	return provider.Request{Path: path, Header: http.Header{}}, nil, err
}

// New returns a session that is to be opened with a key, as a header has it.
func New(c *call.Call, a *answer.Answer, h call.Headers, key string) *Session {
	s := &Session{c: c, account: a.Account, answer: a, from: h.Get(envoy.HeaderAddress), key: secret.New(key),
		since: c.Record.Start}
	for _, p := range call.Protocols(h) {
		if p == protocol || p == protocolBeta { // the others have the key, or select an account
			s.offered = append(s.offered, p)
		}
	}
	if set := a.Account.Rules; c.Env.Limits != nil && set != nil && set.Metered {
		s.rules = set.Only(metered...)
	}
	return s
}
