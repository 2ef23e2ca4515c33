// Package identity finds who a request is from.
package identity

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/auth"
)

// Admit finds the client of a request by its key or certificate, and checks that the key may be used for the request.
// Gateway is the one that it came by, if that is one whose clients may present certificates.
func Admit(c *call.Call, h call.Headers, gateway, path string) *openai.Error {
	caller := access.Caller{Internal: c.Internal, Key: h.Get(envoy.HeaderKey), Authorization: Authorization(c, h),
		Address: h.Get(envoy.HeaderAddress), Path: path}
	if gateway != "" {
		caller.Gateway, caller.Certificate = gateway, h.Get(envoy.HeaderCertificate)
	}
	c.Record.Address = caller.Address
	d := c.Config.Directory
	var e *openai.Error
	if c.Key, e = d.Admit(&caller, c.Record.Start); c.Key != nil {
		c.Record.Subject = c.Key.Subject(caller.Address)
	}
	switch {
	case e == nil:
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
func Authorization(c *call.Call, h call.Headers) string {
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

// Refuse rejects a request without a valid key.
func Refuse(c *call.Call, h call.Headers, e *openai.Error, details string) call.Reply {
	if c.Key == nil && !c.Internal && !c.Env.Strangers.Allow(h.Get(envoy.HeaderAddress), c.Record.Start) {
		e, details = tooManyRefusals(), "mg_strangers_limited"
	}
	return c.Reject(e, details)
}

func tooManyRefusals() *openai.Error {
	return openai.CodeRateLimitExceeded.New("Your address has sent too many requests without a valid API key. Check your key and the URL before you send more.").After(time.Second).Final()
}
