package exchange

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/provider"
)

// Report 9: while a provider's credential cannot be had, its models are there and are to be asked again later.
func TestModelsOfAProviderThatWaitsForItsCredential(t *testing.T) {
	e := newTenancy(t, &configv1.Key{Name: "all"})
	waiting, err := routing.NewProvider(&configv1.ResolvedProvider{Waiting: true,
		Provider: &configv1.Provider{Name: "cloud", Models: []string{"m"}, Disabled: true}},
		provider.Provider{Name: "v", DefaultEndpoint: "https://p.test"})
	require.NoError(t, err)
	e.Providers["cloud"] = waiting
	e.listing(t, &configv1.Provider{Name: "off", Disabled: true})
	for name, target := range map[string]string{"ours": "cloud", "closed": "off"} {
		e.Models[name] = &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: target, Model: "m"}}}
	}
	for _, name := range []string{"cloud/m", "m", "cloud/unlisted", "ours"} {
		got := e.chats(t, "all", name)
		require.Equal(t, http.StatusServiceUnavailable, got.Status, name)
		require.Equal(t, routing.WaitingRetry, got.RetryAfter, name)
		require.Contains(t, got.Message, "no valid credential", name)
	}
	got := e.chats(t, "all", "closed")
	require.Equal(t, http.StatusServiceUnavailable, got.Status)
	require.Zero(t, got.RetryAfter, "what an operator has disabled does not come back by itself")
	require.Equal(t, http.StatusNotFound, e.chats(t, "all", "off/m").Status)

	list := New(e.env, e.Config).RequestHeaders(t.Context(), e.request("GET", "/v1/models", "all"), true).Immediate
	require.Contains(t, string(list.Body), `"id":"cloud/m"`, "it is still listed")
	require.NotContains(t, string(list.Body), `"id":"off/`)
}
