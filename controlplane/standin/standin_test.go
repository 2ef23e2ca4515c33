package standin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/standin"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/request"
)

// TestAnInvalidObjectRefusesItsRequests has the stand-ins decide on the requests of two tenants.
func TestAnInvalidObjectRefusesItsRequests(t *testing.T) {
	limit := func(key, value string) *configv1.RateLimit {
		return &configv1.RateLimit{Descriptors: []*configv1.RateLimitDescriptor{{Key: key, Value: value}}}
	}
	for name, c := range map[string]struct {
		kind, name  string
		object      configv1.Object
		acme, other bool // refused
	}{
		"a tenant's policy":           {"Policy", "p", &configv1.Policy{Organization: "acme"}, true, false},
		"a project's policy":          {"Policy", "p", &configv1.Policy{Organization: "acme", Project: "web"}, true, false},
		"another project's policy":    {"Policy", "p", &configv1.Policy{Organization: "acme", Project: "app"}, false, false},
		"a key's guardrail":           {"Guardrail", "g", &configv1.Guardrail{Key: "k"}, true, true},
		"everybody's guardrail":       {"Guardrail", "g", &configv1.Guardrail{}, true, true},
		"a guardrail of no form":      {"Guardrail", "g", nil, true, true},
		"a disabled policy":           {"Policy", "p", &configv1.Policy{Disabled: true}, false, false},
		"an organization":             {"Organization", "acme", &configv1.Organization{Disabled: true}, true, false},
		"an organization of no form":  {"Organization", "acme", nil, true, false},
		"a project":                   {"Project", "acme/web", nil, true, false},
		"a limit of an organization":  {"RateLimit", "l", limit("organization", "acme"), true, false},
		"a limit of several":          {"RateLimit", "l", limit("organization", "ac*"), true, true},
		"a limit of models":           {"RateLimit", "l", limit("model", "m"), true, true},
		"prices":                      {"Catalog", "default", &configv1.Catalog{}, true, true},
		"prices of no form":           {"Catalog", "default", nil, true, true},
		"what gives something":        {"Model", "m", nil, false, false},
		"a key, which is refused":     {"Key", "k", nil, false, false},
		"an account, which signs in ": {"Account", "a", nil, false, false},
	} {
		invalid := map[configstore.Ref]configv1.Object{{Kind: c.kind, Name: c.name}: c.object}
		compiled, err := policy.Policies(nil).Next(standin.For(invalid))
		require.NoError(t, err)
		acme := compiled.Decide(&policy.Facts{Subject: request.Subject{Key: "k", Organization: "acme", Project: "web"}})
		other := compiled.Decide(&policy.Facts{Subject: request.Subject{Key: "k", Organization: "other", Project: "web"}})
		require.Equal(t, c.acme, acme.Denied != "", name)
		require.Equal(t, c.other, other.Denied != "", name)
		if c.acme {
			require.Contains(t, acme.Message, c.kind+" '"+c.name+"'", name)
		}
	}
}
