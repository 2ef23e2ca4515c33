// Package identity finds who a request is from.
package identity

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/auth"
)

type filter struct{ *call.Call }

// New returns the filter of a request. It finds its client by the key or certificate, and checks that the key may be
// used for the request.
func New(a *account.Account) call.Filter { return filter{a.Call} }

// Request implements call.Filter.
func (f filter) Request(context.Context) *call.Reply {
	e, details := admit(f.Call), "mg_unauthorized"
	if f.Unserved { // a client with a valid key is not a stranger
		e, details = call.UnknownURL(f.Record.Method, f.Record.Path), "mg_unknown_url"
	}
	if e == nil {
		return nil
	}
	if f.Key == nil && !f.Internal && !f.Env.Strangers.Allow(f.Headers.Get(envoy.HeaderAddress), f.Record.Start) {
		e, details = access.TooManyRefusals(), "mg_strangers_limited"
	}
	return f.Refuse(e, details)
}

func admit(c *call.Call) *openai.Error {
	h := c.Headers
	caller := access.Caller{Internal: c.Internal, Key: h.Get(envoy.HeaderKey), Authorization: Authorization(c),
		Address: h.Get(envoy.HeaderAddress), Path: c.Endpoint}
	if c.Internal {
		caller.Project, _ = url.QueryUnescape(h.Get(envoy.HeaderProject)) // the job service has written it
	}
	if c.Gateway != "" {
		caller.Gateway, caller.Certificate = c.Gateway, h.Get(envoy.HeaderCertificate)
	}
	c.Record.Address = caller.Address
	d := c.Config.Directory
	var e *openai.Error
	if c.Key, e = d.Admit(&caller, c.Record.Start); c.Key != nil {
		c.Record.Subject = c.Key.Subject(caller.Address)
	}
	switch {
	case e == nil:
	case c.Key == nil && caller.Barred != nil:
		c.Record.Subject, c.Record.Barred = caller.Barred.Subject(caller.Address), true
		c.Record.RefusedBy = "key/" + caller.Barred.Name + " " + caller.Why
	case c.Key == nil:
		c.Record.KeyHint = auth.HintOf(caller.Authorization)
	case e.Status == http.StatusForbidden:
		c.Record.RefusedBy = "key/" + c.Key.Name + " endpoints"
	default:
		c.Record.RefusedBy = "key/" + c.Key.Name + " addresses"
	}
	return e
}

// Authorization returns the key of a request as a bearer token.
func Authorization(c *call.Call) string {
	h := c.Headers
	if name := c.Dialect.KeyHeader; name != "" {
		if key := strings.TrimSpace(h.Get(name)); key != "" {
			return "Bearer " + key
		}
	}
	if name := c.Dialect.KeyParameter; name != "" {
		if key := parameter(h.Get(":path"), name); key != "" {
			return "Bearer " + key
		}
	}
	given := h.Get("authorization")
	if given == "" && c.Record.Path == envoy.PathRealtime {
		given = call.KeyOfProtocols(h)
	}
	return given
}

// parameter returns a parameter in the query of a path, or "".
func parameter(path, name string) string {
	_, query, ok := strings.Cut(path, "?")
	if !ok {
		return ""
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	return values.Get(name)
}
