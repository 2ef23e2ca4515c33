package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/provider"
)

func atEndpoints(t *testing.T, endpoints map[string]string) *Table {
	table := &Table{Providers: map[string]*Provider{}, Models: map[string]*configv1.Model{}}
	for name, endpoint := range endpoints {
		p, err := NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: name, Endpoint: endpoint}},
			provider.Provider{Name: "acme"})
		require.NoError(t, err)
		table.Providers[name] = p
	}
	table.Index()
	return table
}

func TestPathsOfAProvidersHostAreTheGateways(t *testing.T) {
	table := atEndpoints(t, map[string]string{"groq": "https://api.groq.com/openai/v1",
		"deepseek": "https://api.deepseek.com", "gemini": "https://generativelanguage.googleapis.com/v1beta",
		"near": "https://localhost:8443/openai/v1", "plain": "http://models.test/openai/v1"})
	for _, c := range []struct{ host, path, want string }{
		{"api.groq.com", "/openai/v1/chat/completions", "/v1/chat/completions"},
		{"api.deepseek.com", "/chat/completions", "/v1/chat/completions"},
		{"generativelanguage.googleapis.com", "/v1beta/openai/chat/completions", "/v1/chat/completions"},
		{"localhost", "/openai/v1/chat/completions", ""},
		{"models.test", "/openai/v1/chat/completions", ""},
		{"elsewhere.test", "/openai/v1/chat/completions", ""},
		{"api.groq.com", "/openai/v1", ""},
		{"", "/openai/v1/chat/completions", ""},
	} {
		own := table.OwnPaths(c.host, c.path)
		if c.want == "" {
			require.Empty(t, own, c)
		} else {
			require.Contains(t, own, c.want, c)
		}
	}
}

func TestTheHostDecidesWhatANameLeavesOpen(t *testing.T) {
	table := atEndpoints(t, map[string]string{"a": "https://a.test/v1", "b": "https://b.test/v1"})
	for _, p := range table.Providers {
		p.Config.Models = []string{"m"}
	}
	table.Models["mine"] = &configv1.Model{Name: "mine"}
	table.Index()
	all := &access.Client{}
	_, err := table.ResolveAt(all, "m", nil)
	require.ErrorContains(t, err, "Several providers list it")
	for host, want := range map[string]string{"a.test": "a/m", "b.test": "b/m"} {
		got, err := table.ResolveAt(all, "m", table.AtHost(host))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := table.ResolveAt(all, "mine", table.AtHost("a.test"))
	require.NoError(t, err)
	require.Equal(t, "mine", got, "a Model of that name comes first")
	_, err = table.ResolveAt(&access.Client{Models: []string{"b/*"}}, "x", table.AtHost("a.test"))
	require.Error(t, err, "the key may not use it")
}
