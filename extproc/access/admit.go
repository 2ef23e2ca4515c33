package access

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/jwtauth"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// A Directory is the configuration of keys, tenants and limits. It is immutable.
type Directory struct {
	Hasher        *auth.Hasher
	Carriers      *openai.CarrierKey // signs what the ids of tool calls carry
	Keyring       *Keyring
	Organizations map[string]*configv1.Organization
	Projects      map[string]*configv1.Project // by "<organization>/<project>"
	RateLimits    map[string]*RateLimit        // by name
	Tokens        *jwtauth.Verifier            // of clients without keys; nil: there are none
	// Certificates are the issuers of those that clients may present in place of keys, by gateway.
	Certificates map[string]*Issuer
}

// A Caller is the sender of a request, as the request identifies it.
type Caller struct {
	Internal      bool   // the job service acts for Key
	Key           string // a key's name
	Project       string // of the job, if a token has named another one than the key's
	Authorization string // header value
	Address       string // in Envoy's format
	Path          string
	// Gateway that takes certificates of its clients, by name, and what Envoy says of the client's; empty: it has none.
	Gateway, Certificate string

	// Barred is the client that [Directory.Admit] has found, but that may not be used now, and Why says why: disabled,
	// expired or deleted. Of one that is deleted only the name is known.
	Barred *Client
	Why    string
}

// Admit finds the client of a request, by its key, its certificate or the headers of the job service, and checks that
// the key may be used for it. The client is nil if there is none. The interface document defines the errors.
func (d *Directory) Admit(c *Caller, now time.Time) (*Client, *openai.Error) {
	var key *Client
	var why string
	switch {
	case c.Internal:
		if key = d.Keyring.ByName(c.Key); key != nil && c.Project != "" && key.Organization != "" {
			key.Project = c.Project
		}
		why = "The API key on whose behalf this is asked is gone, disabled or expired."
	case c.Authorization == "" && c.Certificate != "":
		key, why = d.ofCertificate(c.Gateway, c.Certificate)
	case !auth.IsBearer(c.Authorization):
		why = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
	default:
		given, ok := auth.FromHeader(c.Authorization)
		why = "The API key provided is invalid. Check that it is whole, not revoked and not expired, and send it as Authorization: Bearer YOUR_KEY."
		switch {
		case ok && auth.CheckFormat(given):
			hash := d.Hasher.Hash(given)
			if key = d.Keyring.ByHash(hash, now); key == nil {
				c.Barred, c.Why = d.Keyring.removed(hash), "deleted"
			}
		case ok && d.Tokens != nil && jwtauth.Looks(given):
			key, why = d.ofToken(given, now)
		}
	}
	if key != nil && !d.isValid(key, now) {
		c.Barred, c.Why, key = key, "disabled", nil
		if c.Barred.Expires != 0 && now.Unix() >= c.Barred.Expires {
			c.Why = "expired"
		}
	}
	if key == nil {
		return nil, openai.CodeInvalidAPIKey.New("%s", why)
	}
	if !c.Internal && !key.usableFrom(c.Address) {
		return key, openai.CodeIPNotAuthorized.New("This API key may not be used from your address. Ask who gave you the key to add it, or send the request from an address that is allowed.")
	}
	// The job service looks up models for every key.
	if !key.usableFor(c.Path) && (!c.Internal || !strings.HasPrefix(c.Path, "/v1/models/")) {
		return key, openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: this API key may not be used for %s.",
			telemetry.Clip(c.Path))
	}
	return key, nil
}

// ofToken returns the key as which a token acts, or why there is none.
func (d *Directory) ofToken(token string, now time.Time) (key *Client, why string) {
	p, err := d.Tokens.Verify(token, now)
	if err != nil {
		return nil, "The token provided is not accepted: " + err.Error() + "."
	}
	if key = d.Keyring.ByName(p.Key); key == nil {
		return nil, "The token provided is not accepted: the key as which it acts does not exist."
	}
	if p.Project != "" {
		if d.Projects[key.Organization+"/"+p.Project] == nil {
			return nil, "The token provided is not accepted: the project that it names does not exist."
		}
		key.Project = p.Project
	}
	key.Token = &p
	if expires := p.Expires.Unix(); key.Expires == 0 || expires < key.Expires {
		key.Expires = max(expires, now.Unix()+1) // the verifier allows for a skew of clocks
	}
	return key, "The key as which the token acts is disabled or expired."
}

// isValid reports whether a key is valid. A key is disabled if its organization or project is.
func (d *Directory) isValid(k *Client, now time.Time) bool {
	switch {
	case k.Disabled, k.Expires != 0 && now.Unix() >= k.Expires:
		return false
	case k.Organization == "":
		return true
	case d.Organizations[k.Organization].GetDisabled():
		return false
	}
	return k.Project == "" || !d.Projects[k.Organization+"/"+k.Project].GetDisabled()
}

// usableFrom reports whether the key may be used from an address in Envoy's format. A malformed address is not allowed
// where addresses are restricted.
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

// usableFor reports whether the key may be used for a path. An endpoint without "*" includes the paths below it:
// "files" also allows one file.
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
