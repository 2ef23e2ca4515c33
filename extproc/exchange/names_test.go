package exchange

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/provider"
)

// listing adds a provider that lists models.
func (e *tenancy) listing(t *testing.T, p *configv1.Provider) {
	t.Helper()
	made, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: p},
		provider.Provider{Name: "v", DefaultEndpoint: "https://p.test"})
	require.NoError(t, err)
	e.Providers[p.GetName()] = made
}

func TestAModelWithoutItsProvider(t *testing.T) {
	e := newTenancy(t,
		&configv1.Key{Name: "all"},
		&configv1.Key{Name: "openai", Models: []string{"openai/*"}},
		&configv1.Key{Name: "azure", Models: []string{"azure/*"}},
		&configv1.Key{Name: "b", Organization: "b"},
	)
	no := false
	e.listing(t, &configv1.Provider{Name: "openai", Models: []string{"gpt-4o", "o3", "both"}})
	e.listing(t, &configv1.Provider{Name: "azure", Models: []string{"gpt-4o", "ours"}, AllowUnlistedModels: &no})
	e.listing(t, &configv1.Provider{Name: "strict", Models: []string{"alone", "o3"}, FullNamesOnly: true})
	e.listing(t, &configv1.Provider{Name: "asleep", Models: []string{"o3"}, Disabled: true})
	e.listing(t, &configv1.Provider{Name: "together"})
	e.Listings = map[string]*configv1.Listing{
		"together": {Models: []*configv1.ListedModel{{Id: "meta-llama/Llama-3.3-70B"}}}}
	e.Models["both"] = &configv1.Model{Name: "both", Targets: []*configv1.Target{{Provider: "openai", Model: "gpt-4o"}}}
	e.Models["ours"] = &configv1.Model{Name: "ours", Organization: "b",
		Targets: []*configv1.Target{{Provider: "openai", Model: "o3"}}}
	for _, c := range []struct{ key, asked, resolved, message string }{
		{"all", "openai/gpt-4o", "openai/gpt-4o", ""},
		{"all", "openai/anything", "openai/anything", ""},
		{"all", "o3", "openai/o3", ""},
		{"all", "meta-llama/Llama-3.3-70B", "together/meta-llama/Llama-3.3-70B", ""},
		{"all", "both", "both", ""},
		{"openai", "both", "openai/both", ""},
		{"openai", "gpt-4o", "openai/gpt-4o", ""},
		{"azure", "gpt-4o", "azure/gpt-4o", ""},
		{"b", "ours", "ours", ""},
		{"all", "ours", "azure/ours", ""},
		{"openai", "ours", "", "The model `ours` does not exist or you do not have access to it."},
		{"all", "gpt-4o", "",
			"The model `gpt-4o` does not exist or you do not have access to it. Several providers list it, please name one of: `azure/gpt-4o`, `openai/gpt-4o`."},
		{"all", "alone", "",
			"The model `alone` does not exist or you do not have access to it. Models with a similar name: `strict/alone`."},
		{"all", "GPT-4o-2024", "",
			"The model `GPT-4o-2024` does not exist or you do not have access to it. Models with a similar name: `azure/gpt-4o`, `openai/gpt-4o`."},
		{"azure", "gpt-4", "",
			"The model `gpt-4` does not exist or you do not have access to it. Models with a similar name: `azure/gpt-4o`."},
		{"all", "zz", "", "The model `zz` does not exist or you do not have access to it."},
	} {
		x := New(e.env, e.Config)
		reply := x.RequestHeaders(t.Context(), e.request("POST", "/v1/chat/completions", c.key), false)
		require.Nil(t, reply.Immediate)
		name, err := e.Resolve(x.c.Key, c.asked)
		require.Equal(t, c.resolved, name, "%s %s", c.key, c.asked)
		if c.message != "" {
			require.ErrorContains(t, err, c.message)
			require.Equal(t, c.message, e.chats(t, c.key, c.asked).Message)
		}
		x.Close()
		got := New(e.env, e.Config).RequestHeaders(t.Context(), e.request("GET", "/v1/models/"+c.asked, c.key),
			true).Immediate
		require.Equal(t, c.message == "", got.Status == 200, "%s %s: what is shown can be asked", c.key, c.asked)
		if got.Status == 200 {
			require.Contains(t, string(got.Body), `"id":"`+c.resolved+`"`)
		}
	}
	x := New(e.env, e.Config)
	x.RequestHeaders(t.Context(), e.request("POST", "/v1/chat/completions", "all"), false)
	x.RequestBody(t.Context(), []byte(`{"model":"o3","messages":[{"role":"user","content":"x"}]}`))
	require.Equal(t, "openai/o3", x.Close().Model, "limits, prices and records know it by one name")
}
