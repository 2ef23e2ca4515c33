package queries

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A CatalogueFilter says which models to list. What is empty does not restrict them.
type CatalogueFilter struct {
	// Words must all be in the vendor and the name.
	Words string
	// Capability is one of the words of a model's capabilities, inputs or outputs.
	Vendor, Capability string
	// Served is set for models that a provider serves.
	Served bool
}

// Catalogue returns the models that the gateway knows, and which providers serve each.
func Catalogue(ctx context.Context, store *configstore.Store, f CatalogueFilter) (adminapi.Catalogue, error) {
	known, err := catalogIn(ctx, store)
	if err != nil {
		return adminapi.Catalogue{}, err
	}
	entries, err := store.List(ctx, configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return adminapi.Catalogue{}, err
	}
	var providers []*configv1.Provider
	for _, e := range entries {
		if p, ok := e.Object.(*configv1.Provider); ok && !p.GetDisabled() {
			providers = append(providers, p)
		}
	}
	return catalogueOf(known.Known(), providers, f, time.Now()), nil
}

// catalogueOf lists models as they are at a time.
func catalogueOf(known []catalog.Known, providers []*configv1.Provider, f CatalogueFilter,
	now time.Time) adminapi.Catalogue {
	out := adminapi.Catalogue{Items: []adminapi.CatalogueModel{}, Known: len(known)}
	vendors, words := map[string]bool{}, map[string]bool{}
	for _, k := range known {
		m := catalogueModel(k, providers, now)
		vendors[m.Vendor] = true
		for _, word := range wordsOf(m) {
			words[word] = true
		}
		if f.takes(m) {
			out.Items = append(out.Items, m)
		}
	}
	delete(vendors, "")
	out.Vendors = append([]string{}, slices.Sorted(maps.Keys(vendors))...)
	out.Capabilities = append([]string{}, slices.Sorted(maps.Keys(words))...)
	return out
}

func (f CatalogueFilter) takes(m adminapi.CatalogueModel) bool {
	name := strings.ToLower(m.Vendor + "/" + m.Name)
	for word := range strings.FieldsSeq(strings.ToLower(f.Words)) {
		if !strings.Contains(name, word) {
			return false
		}
	}
	return (f.Vendor == "" || m.Vendor == "" || m.Vendor == f.Vendor) &&
		(f.Capability == "" || slices.Contains(wordsOf(m), f.Capability)) && (!f.Served || len(m.Providers) > 0)
}

// wordsOf returns the words by which a model is found besides its name.
func wordsOf(m adminapi.CatalogueModel) []string {
	return slices.Concat(m.Capabilities, m.Inputs, m.Outputs)
}

func catalogueModel(k catalog.Known, providers []*configv1.Provider, now time.Time) adminapi.CatalogueModel {
	can := k.Facts.GetCapabilities()
	m := adminapi.CatalogueModel{Vendor: k.Vendor, Name: k.Name, Exact: k.Exact, ContextTokens: can.GetContextTokens(),
		MaxOutputTokens: can.GetMaxOutputTokens(), Inputs: modalities(k.Facts.GetInputs()),
		Outputs: modalities(k.Facts.GetOutputs()), Capabilities: capabilitiesOf(can), Providers: []string{}}
	if price := catalog.PriceAt(k.Facts, now); price != nil {
		m.InputUSD, m.OutputUSD, m.ImageUSD = price.GetInput(), price.GetOutput(), price.GetImage()
		m.CachedInputUSD = cmp.Or(price.GetCachedInput(), price.GetInput())
		m.LongPrompts = len(price.GetTiers()) > 0
	}
	if k.Facts.GetRetiresAt() != nil {
		at := k.Facts.GetRetiresAt().AsTime()
		m.RetiresAt, m.Retired = &at, !now.Before(at)
	}
	for _, p := range providers {
		if serves(p, k) {
			m.Providers = append(m.Providers, p.GetName())
		}
	}
	return m
}

// serves reports whether requests for a model, or for a version of it, can go to a provider.
func serves(p *configv1.Provider, k catalog.Known) bool {
	if k.Vendor != "" && p.GetVendor() != k.Vendor {
		return false
	}
	return p.AllowsUnlisted() || slices.ContainsFunc(p.GetModels(), func(name string) bool {
		return name == k.Name || !k.Exact && configv1.Matches("*"+k.Name+"*", name)
	})
}

func modalities(list []configv1.Modality) []string {
	var words []string
	for _, m := range list {
		words = append(words, strings.ToLower(m.String()))
	}
	return words
}

// capabilitiesOf returns the words for what a model can do, as far as it is known.
func capabilitiesOf(can *configv1.Capabilities) []string {
	words := []string{}
	switch can.GetThinking() {
	case configv1.Thinking_NEVER:
	case configv1.Thinking_THINKING_UNSPECIFIED:
		if len(can.GetEfforts()) > 0 || can.GetEncryptedReasoning() {
			words = append(words, "reasoning")
		}
	default:
		words = append(words, "reasoning")
	}
	if can.GetStructuredOutput() {
		words = append(words, "structured_output")
	}
	if can.GetWebSearch() {
		words = append(words, "web_search")
	}
	if can != nil && can.Chat != nil && !can.GetChat() {
		words = append(words, "responses_only")
	}
	return words
}
