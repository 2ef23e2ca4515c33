// Package realtime has the sessions of the Realtime API. Their frames pass, and those of the provider are read in
// passing: each response of a session is charged as a request of its own.
package realtime

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/pipeline"
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

// Opens reports whether a request is for the Realtime API. A Route may have the path's other requests, such as
// those of WebRTC.
func Opens(path string, h call.Headers, routed bool) bool {
	return path == envoy.PathRealtime && (!routed || isWebSocket(h))
}

func isWebSocket(h call.Headers) bool { return strings.EqualFold(h.Get(headerUpgrade), upgradedTo) }

// New returns the session that a request opens, or the refusal of one that opens none.
func New(c *call.Call, a *answer.Answer, end bool) (*Session, *call.Reply) {
	h := c.Headers
	c.Operation, c.Record.Operation, c.Record.Stream = Operation, Operation.Name, true
	switch {
	case c.Record.Method != http.MethodGet:
		return nil, c.Refuse(call.WrongMethod(c.Record.Method, c.Record.Path, http.MethodGet), "mg_method")
	case end || !isWebSocket(h):
		return nil, c.Refuse(openai.CodeUpgradeRequired.New("The Realtime API is served over WebSocket, with HTTP/1.1. Open the URL with a WebSocket client."), "mg_no_upgrade")
	}
	s := &Session{c: c, account: a.Account, answer: a, from: h.Get(envoy.HeaderAddress), since: c.Record.Start}
	for _, p := range call.Protocols(h) {
		if p == protocol || p == protocolBeta { // the others have the key, or select an account
			s.offered = append(s.offered, p)
		}
	}
	return s, nil
}

// SetKey sets the client's key, as a header has it. It is checked as long as the session is open.
func (s *Session) SetKey(key string) { s.key = secret.New(key) }

// Plan plans the attempts to open the session. It is refused if the provider has no free place: a client that waits
// for its handshake has nothing to say so with.
func (s *Session) Plan(ctx context.Context) *call.Reply {
	c := s.c
	c.Record.Model, c.Record.Label = c.Request.Model, c.Config.Label(c.Request.Model)
	var free bool
	var err error
	c.Active, _, free, err = c.Config.Plan(ctx, &routing.PlanRequest{ID: c.Record.ID, Model: c.Request.Model,
		Request: c.Request.Encoder, Session: true, Now: c.Env.Now, Random: c.Env.Random, Gates: &c.Env.Gates,
		Cooldown: &c.Env.Cooldown, Trace: c})
	switch {
	case err != nil:
		return s.account.RejectBody(ctx, pipeline.ClientError(err), "mg_no_plan")
	case !free:
		return c.Refuse(call.Overloaded(), "mg_overloaded")
	}
	// This is refused if a limit is used up, and counts the request. What responses use has reservations of its own.
	s.account.Expect(metering.Demand{Input: 1, Output: 1, Answers: 1})
	return nil
}

// Send lets the handshake go to the providers. Their upstream filter sets the path and the credential.
func (s *Session) Send(ctx context.Context) call.Reply {
	c := s.c
	if e := s.takePlace(); e != nil {
		return c.Reject(e, "mg_too_many_sessions")
	}
	s.account.Demand.Input = 0 // nothing is charged for it
	if set := s.account.Rules; c.Env.Limits != nil && set.Metered {
		s.rules = set.Only(metered...)
	}
	if e := s.reserve(ctx); e != nil {
		return c.Reject(e, "mg_limited")
	}
	c.Duplex = true
	s.account.Send()
	reply := c.Begun(call.Reply{Plan: c.Active, PassRequest: true, ResponseBody: call.Duplex, Remove: c.Removed[:0]})
	for i := range c.Headers {
		name := c.Headers[i].Name
		if name[0] != ':' && !headers.ToProvider(name) && !forwardedToSession[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	switch {
	case len(s.offered) > 0:
		reply.Set = append(reply.Set, call.Header{Name: call.HeaderProtocol, Value: strings.Join(s.offered, ", ")})
	case c.Headers.Get(call.HeaderProtocol) != "":
		reply.Remove = append(reply.Remove, call.HeaderProtocol)
	}
	return reply
}

// takePlace takes a place among the open sessions until the session ends, or returns the refusal. A session costs
// nothing while nobody says anything, so that a key without a limit of concurrency could open any number.
func (s *Session) takePlace() *openai.Error {
	c := s.c
	release, ok, own := c.Env.Sessions.Take(c.Key.Tenant(), c.Key.Name)
	switch {
	case ok:
		s.release = release
		return nil
	case own:
		return openai.CodeRateLimitExceeded.New("Your key or organization has as many sessions open as it may. Please try again when one of them has ended.").After(time.Second)
	}
	return call.OverCapacity("The gateway has as many sessions open as it can at the moment. Please try again later.")
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
