package inspect

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// CacheCmd is the command cache.
type CacheCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Since string `default:"24h" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
}

// Help is shown below the flags' summary.
func (CacheCmd) Help() string {
	return `What caches saved is counted by the ledger: GET /admin/v1/cache says the same. A hit saves what its answer had
cost before, and as much time as the misses of its model take on average. The bytes are those of the process at the
admin address, if it serves requests.

Example:
  modelgate cache`
}

// A cacheReport says whether caches are worth it.
type cacheReport struct {
	Caches []cacheStatus `json:"caches"`
	adminapi.CacheWorth
}

// A cacheStatus is what a response cache is, and what it has done.
type cacheStatus struct {
	Name     string   `json:"name"`
	Of       string   `json:"of,omitempty"` // whose requests; empty: everybody's
	Models   []string `json:"models,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
	Error    string   `json:"error,omitempty"`
	Bytes    *int64   `json:"bytes,omitempty"` // absent if the process at the admin address does not serve requests
	adminapi.CacheSums
}

// Run shows whether response caches are worth it.
func (c CacheCmd) Run(ctx context.Context, stdout io.Writer) error {
	conn, err := c.Connect()
	if err != nil {
		return err
	}
	client := adminapi.NewClient(conn.Server, conn.Token, conn.HTTP).Acting(c.Tenant)
	items, err := admincli.ListAll(ctx, client, configv1.KindOf((*configv1.ResponseCache)(nil)), adminapi.ListOptions{})
	if err != nil {
		return admincli.Said(err)
	}
	start, err := adminflags.ParseSince("--since", c.Since, time.Now())
	if err != nil {
		return err
	}
	r := cacheReport{Caches: []cacheStatus{}}
	r.CacheWorth, err = client.CacheWorth(ctx, adminapi.ListOptions{Filters: map[string]string{
		"start": strconv.FormatInt(start.Unix(), 10)}})
	if err != nil {
		return admincli.Said(err)
	}
	bytes := bytesOf(admincli.Metrics(ctx, conn))
	for _, i := range items {
		s := cacheStatus{Name: i.Name, Error: i.Status.Error, CacheSums: adminapi.CacheSums{SavedUSD: "0"}}
		if n, ok := bytes[i.Name]; ok {
			s.Bytes = &n
		}
		if o, ok := i.Object.(*configv1.ResponseCache); ok {
			s.Models, s.Disabled, s.Of = o.GetModels(), o.GetDisabled(), cacheOwner(o)
		}
		for _, did := range r.CacheWorth.Caches {
			if did.Name == i.Name {
				s.CacheSums = did.CacheSums
			}
		}
		r.Caches = append(r.Caches, s)
	}
	return c.Show(stdout, r, func(out *console.Text) {
		out.Names = adminapi.Names(ctx, client)
		cacheTable(out, r.Caches)
		out.Section([]string{"MODEL", "HITS", "OF REQUESTS", "SAVED USD", "SAVED TIME"}, admincli.Rows(r.Models,
			func(m adminapi.NamedCacheSums) []string { return append([]string{m.Name}, worth(m.CacheSums)...) }))
		out.Section([]string{"PROVIDER'S CACHE", "INPUT", "CACHED", "WRITTEN", "SAVED USD"}, admincli.Rows(r.Prompts,
			func(p adminapi.PromptCache) []string {
				return []string{p.Provider + "/" + p.Model, number(p.InputTokens), number(p.CachedTokens),
					number(p.WrittenTokens), p.SavedUSD}
			}))
	})
}

// worth are the cells of what a cache saved.
func worth(s adminapi.CacheSums) []string {
	return []string{number(s.Hits), percentOf(s.Hits, s.Hits+s.Misses), s.SavedUSD,
		(time.Duration(s.SavedMS) * time.Millisecond).String()}
}

// percentOf is empty if there is no whole.
func percentOf(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return strconv.FormatInt(100*part/whole, 10) + " %"
}

func cacheOwner(o *configv1.ResponseCache) string {
	if o.GetKey() != "" {
		return "key " + o.GetKey()
	}
	return strings.TrimSuffix(o.GetOrganization()+"/"+o.GetProject(), "/")
}

// bytesOf returns how much each response cache keeps, as the metrics say.
func bytesOf(metrics []admincli.Metric) map[string]int64 {
	all := map[string]int64{}
	for _, m := range metrics {
		if m.Name == "modelgate_cache_bytes" {
			all[m.Labels["cache"]] += int64(m.Value)
		}
	}
	return all
}

func cacheTable(out *console.Text, all []cacheStatus) {
	out.Table("There is no ResponseCache: see docs/response-cache.md.",
		[]string{"CACHE", "OF", "MODELS", "STATE", "HITS", "OF REQUESTS", "SAVED USD", "SAVED TIME", "BYPASSED", "BYTES"},
		admincli.Rows(all, func(s cacheStatus) []string {
			state, bytes := "active", "?"
			switch {
			case s.Error != "":
				state = "error: " + s.Error
			case s.Disabled:
				state = "disabled"
			}
			if s.Bytes != nil {
				bytes = number(*s.Bytes)
			}
			row := []string{s.Name, cmp.Or(out.Named(s.Of), "everybody"), cmp.Or(strings.Join(s.Models, ", "), "all"), state}
			return append(append(row, worth(s.CacheSums)...), number(s.Bypassed), bytes)
		}))
}
