package exchange

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/auth"
)

// admit finds the client of a request by its key or certificate, and checks that the key may be used for the request.
func (x *Exchange) admit(h Headers, path string) *openai.Error {
	caller := access.Caller{Internal: x.c.Internal, Key: h.Get(envoy.HeaderKey),
		Authorization: x.authorization(h), Address: h.Get(envoy.HeaderAddress), Path: path}
	if x.gateway != "" {
		caller.Gateway, caller.Certificate = x.gateway, h.Get(envoy.HeaderCertificate)
	}
	x.c.Record.Address = caller.Address
	d := x.c.Config.Directory
	var e *openai.Error
	if x.c.Key, e = d.Admit(&caller, x.c.Record.Start); x.c.Key != nil {
		x.c.Record.Subject = x.c.Key.Subject(caller.Address)
	}
	switch {
	case e == nil:
	case x.c.Key == nil:
		x.c.Record.KeyHint = auth.HintOf(caller.Authorization)
	case e.Status == http.StatusForbidden:
		x.c.Record.RefusedBy = "key/" + x.c.Key.Name + " endpoints"
	default:
		x.c.Record.RefusedBy = "key/" + x.c.Key.Name + " addresses"
	}
	return e
}

// authorization returns the key of a request as a bearer token.
func (x *Exchange) authorization(h Headers) string {
	if name := x.c.Dialect.KeyHeader; name != "" {
		if key := strings.TrimSpace(h.Get(name)); key != "" {
			return "Bearer " + key
		}
	}
	if name := x.c.Dialect.KeyParameter; name != "" {
		if key := parameter(h.Get(":path"), name); key != "" {
			return "Bearer " + key
		}
	}
	given := h.Get("authorization")
	if given == "" && x.c.Record.Path == envoy.PathRealtime {
		given = keyOfProtocols(h)
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
