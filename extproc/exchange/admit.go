package exchange

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// admit finds out on whose behalf a request is, by the client's key or as the job service says, and whether that key may be
// used for it. The errors for clients are those of the interface document.
func (x *Exchange) admit(h Headers, path string) *openai.Error {
	var why string
	header := h.Get("authorization")
	switch {
	case x.internal:
		x.key = x.config.Keyring.ByName(h.Get(envoy.HeaderKey))
		why = "The API key on whose behalf this is asked is gone, disabled or expired."
	case !auth.IsBearer(header):
		why = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
	default:
		if key, ok := auth.FromHeader(header); ok && auth.CheckFormat(key) {
			x.key = x.config.Keyring.ByHash(x.config.Hasher.Hash(key), x.record.Start)
		}
		why = "The API key provided is invalid. Check that it is whole, not revoked and not expired, and send it as Authorization: Bearer YOUR_KEY."
	}
	if x.key != nil && !x.config.isValid(x.key, x.record.Start) {
		x.key = nil
	}
	if x.key == nil {
		return &openai.Error{Status: http.StatusUnauthorized, Type: openai.TypeInvalidRequest, Code: "invalid_api_key", Message: why}
	}
	x.record.KeyID, x.record.Organization, x.record.Project = x.key.Name, x.key.Organization, x.key.Project
	if !x.internal && !x.key.usableFrom(h.Get(envoy.HeaderAddress)) {
		return &openai.Error{Status: http.StatusUnauthorized, Type: openai.TypeInvalidRequest, Code: "ip_not_authorized",
			Message: "This API key may not be used from your address. Ask who gave you the key to add it, or send the request from an address that is allowed."}
	}
	// What a model is, the job service has to know on behalf of any key.
	if !x.key.usableFor(path) && (!x.internal || !strings.HasPrefix(path, "/v1/models/")) {
		return &openai.Error{Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: "insufficient_permissions",
			Message: "You have insufficient permissions for this operation: this API key may not be used for " + telemetry.Clip(path) + "."}
	}
	return nil
}

// isValid reports whether a key lets somebody in. That of an organization or project which is disabled is as if it were itself.
func (c *Config) isValid(k *Client, now time.Time) bool {
	switch {
	case k.Disabled, k.Expires != 0 && now.Unix() >= k.Expires:
		return false
	case k.Organization == "":
		return true
	case c.Organizations[k.Organization].GetDisabled():
		return false
	}
	return k.Project == "" || !c.Projects[k.Organization+"/"+k.Project].GetDisabled()
}

// usableFrom reports whether the key may be used from an address, as Envoy writes it. What is no address is from nowhere.
func (k *Client) usableFrom(address string) bool {
	if len(k.Addresses) == 0 {
		return true
	}
	from, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	from = from.Unmap().WithZone("")
	return slices.ContainsFunc(k.Addresses, func(allowed netip.Prefix) bool { return allowed.Contains(from) })
}

// usableFor reports whether the key may be used for what is under a path. An endpoint without "*" includes what is below it:
// "files" is also for one file.
func (k *Client) usableFor(path string) bool {
	if len(k.Endpoints) == 0 {
		return true
	}
	name := strings.TrimPrefix(strings.TrimPrefix(path, "/v1/"), "/")
	return slices.ContainsFunc(k.Endpoints, func(pattern string) bool {
		pattern = strings.Trim(pattern, "/")
		return configv1.Matches(pattern, name) || strings.HasPrefix(name, pattern+"/")
	})
}
