package queries

import (
	"context"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/ledger/cachesums"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/usage"
)

// CacheWorth returns what caches saved in a time, which is the last day unless the options say otherwise.
func (q *Service) CacheWorth(ctx context.Context, o adminapi.ListOptions) (adminapi.CacheWorth, error) {
	asked := params.OfOptions(o)
	of := cachesums.Query{Organization: asked.One("organization"), Project: asked.One("project"),
		Model: asked.One("model")}
	of.From, of.To = asked.Period()
	out := adminapi.CacheWorth{Start: of.From, End: of.To, Models: []adminapi.NamedCacheSums{},
		Caches: []adminapi.NamedCacheSums{}, Prompts: []adminapi.PromptCache{}}
	if asked.Err != nil {
		return out, asked.Err
	}
	all, err := q.options.Ledger.Cached(ctx, of)
	if err != nil {
		return out, ledger.Unavailable(err)
	}
	var total cached
	models, caches := namedCached{}, namedCached{}
	for i := range all {
		total.add(&all[i])
		models.add(all[i].Model, &all[i])
		caches.add(all[i].Cache, &all[i])
	}
	out.CacheSums, out.Models, out.Caches = total.sums(), models.sums(), caches.sums()
	prompts, err := q.options.Ledger.Prompts(ctx, of)
	if err != nil {
		return out, ledger.Unavailable(err)
	}
	return out, addPrompts(ctx, q.options.Store, &out, prompts)
}

// A cached adds up sums.
type cached struct {
	hits, misses, bypassed int64
	saved                  usage.Nano
	took                   time.Duration
}

func (c *cached) add(s *cachesums.Sums) {
	c.hits, c.misses, c.bypassed = c.hits+s.Hits, c.misses+s.Misses, c.bypassed+s.Bypassed
	c.saved, c.took = c.saved.Plus(s.Saved), c.took+s.Took()
}

func (c *cached) sums() adminapi.CacheSums {
	return adminapi.CacheSums{Hits: c.hits, Misses: c.misses, Bypassed: c.bypassed, SavedUSD: c.saved.String(),
		SavedMS: c.took.Milliseconds()}
}

// A namedCached adds up sums by name. The names are in the order in which they came.
type namedCached struct {
	names []string
	of    []*cached
}

func (n *namedCached) add(name string, s *cachesums.Sums) {
	i := slices.Index(n.names, name)
	if i < 0 {
		i = len(n.names)
		n.names, n.of = append(n.names, name), append(n.of, &cached{})
	}
	n.of[i].add(s)
}

func (n *namedCached) sums() []adminapi.NamedCacheSums {
	all := []adminapi.NamedCacheSums{}
	for i, name := range n.names {
		all = append(all, adminapi.NamedCacheSums{Name: name, CacheSums: n.of[i].sums()})
	}
	return all
}

// addPrompts adds what vendors read from their caches, and what that saved at today's prices.
func addPrompts(ctx context.Context, store *configstore.Store, out *adminapi.CacheWorth,
	prompts []ledger.Prompt) error {
	providers, err := store.List(ctx, configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return err
	}
	vendors := map[string]string{}
	for _, e := range providers {
		if p, ok := e.Object.(*configv1.Provider); ok {
			vendors[e.Name] = p.GetVendor()
		}
	}
	known, err := catalogIn(ctx, store)
	if err != nil {
		return err
	}
	total := usage.Nano(0)
	for _, p := range prompts {
		c := adminapi.PromptCache{Provider: p.Provider, Model: p.Upstream, InputTokens: p.Input, CachedTokens: p.Cached,
			WrittenTokens: p.Written}
		if vendor, ok := vendors[p.Provider]; ok {
			rates := usage.Compile(catalog.PriceAt(known.Facts(vendor, p.Upstream), out.End))
			var saved usage.Nano
			if saved, c.Priced = savedBy(rates, &p); c.Priced {
				c.SavedUSD, total = saved.String(), total+saved
			}
		}
		out.Prompts = append(out.Prompts, c)
	}
	out.PromptsSavedUSD = total.String()
	return nil
}

// savedBy returns what the tokens of prompts would have cost more without a cache. Which tier of the price each prompt
// had is not known: it is the lowest.
func savedBy(rates *usage.Rates, p *ledger.Prompt) (usage.Nano, bool) {
	var used usage.Used
	*used.At(usage.InputTokens) = p.Input
	used.LongestPrompt = 1
	without, priced := rates.Cost(used)
	*used.At(usage.CachedTokens), *used.At(usage.CacheWriteTokens) = p.Cached, p.Written
	with, _ := rates.Cost(used)
	return without - with, priced
}
