package queries

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
)

func TestTheCatalogueSaysWhoServesAModelAndWhatItCosts(t *testing.T) {
	providers := []*configv1.Provider{
		{Name: "all", Vendor: "openai"},
		{Name: "some", Vendor: "openai", Models: []string{"gpt-4.1", "gpt-4o-mini-2024-07-18"},
			AllowUnlistedModels: proto.Bool(false)},
		{Name: "other", Vendor: "anthropic"},
	}
	known, at := catalog.New(nil).Known(), time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	list := func(f CatalogueFilter) []adminapi.CatalogueModel { return catalogueOf(known, providers, f, at).Items }
	one := func(vendor, name string) adminapi.CatalogueModel {
		for _, m := range list(CatalogueFilter{Vendor: vendor}) {
			if m.Name == name {
				return m
			}
		}
		t.Fatalf("%s/%s is not listed", vendor, name)
		return adminapi.CatalogueModel{}
	}
	m := one("openai", "gpt-4.1")
	require.Equal(t, []string{"all", "some"}, m.Providers)
	require.Equal(t, "2 0.5 8", m.InputUSD+" "+m.CachedInputUSD+" "+m.OutputUSD)
	require.Equal(t, []string{"text", "image", "file"}, m.Inputs)
	require.EqualValues(t, 1047576, m.ContextTokens)
	require.True(t, m.Exact)
	require.Equal(t, []string{"all"}, one("openai", "gpt-4o").Providers)
	require.Empty(t, one("azure", "gpt-4o").Providers)
	require.Contains(t, one("openai", "gpt-5-pro").Capabilities, "responses_only")
	require.True(t, one("anthropic", "claude-opus-4-0").Retired)
	later := one("anthropic", "claude-opus-4-5")
	require.Nil(t, later.RetiresAt)
	require.False(t, later.Exact)
	require.False(t, one("gemini", "gemini-2.5-pro").Retired, "not yet")
	require.NotNil(t, one("gemini", "gemini-2.5-pro").RetiresAt)

	whole := catalogueOf(known, providers, CatalogueFilter{Words: "GPT 4.1 nano"}, at)
	require.Len(t, whole.Items, 2, "of OpenAI and of Azure")
	require.Equal(t, len(known), whole.Known)
	require.Contains(t, whole.Vendors, "mistral")
	require.Subset(t, whole.Capabilities, []string{"reasoning", "vector", "audio"})
	for _, m := range list(CatalogueFilter{Capability: "vector", Served: true}) {
		require.Equal(t, []string{"vector"}, m.Outputs)
		require.NotEmpty(t, m.Providers)
	}
	require.Empty(t, list(CatalogueFilter{Vendor: "nobody"}))
}

func TestAnOwnPriceIsInTheCatalogue(t *testing.T) {
	own := &configv1.Catalog{Models: []*configv1.ModelFacts{
		{Vendors: []string{"openai"}, Models: []string{"gpt-4.1"}, Price: &configv1.Price{Input: "1"}},
		{Models: []string{"llama-mine*"}, Price: &configv1.Price{Input: "0.1"}}}}
	list := catalogueOf(catalog.New(own).Known(), []*configv1.Provider{{Name: "p", Vendor: "vllm"}},
		CatalogueFilter{Words: "mine"}, time.Now())
	require.Len(t, list.Items, 1)
	require.Equal(t, []string{"p"}, list.Items[0].Providers, "an entry without vendors is for all")
	list = catalogueOf(catalog.New(own).Known(), nil, CatalogueFilter{Words: "gpt-4.1", Vendor: "openai"}, time.Now())
	require.Equal(t, "1", list.Items[0].InputUSD)
}
