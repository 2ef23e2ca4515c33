package inspect

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"

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
}

// Help is shown below the flags' summary.
func (CacheCmd) Help() string {
	return `The counters are those of the process at the admin address since its start: all requests, if it is modelgate run.
Elsewhere, they are in the metrics of the ext_proc services: modelgate_cache_requests_total.

Example:
  modelgate cache`
}

// A cacheStatus is what a response cache has done.
type cacheStatus struct {
	Name     string   `json:"name"`
	Of       string   `json:"of,omitempty"` // whose requests; empty: everybody's
	Models   []string `json:"models,omitempty"`
	Disabled bool     `json:"disabled,omitempty"`
	Error    string   `json:"error,omitempty"`
	// Counts are absent if the process at the admin address does not serve requests.
	Counts *cacheCounts `json:"counts,omitempty"`
}

type cacheCounts struct {
	Hits     int64   `json:"hits"` // of equal and similar requests, and of those at the same time
	Misses   int64   `json:"misses"`
	Bypassed int64   `json:"bypassed"`
	SavedUSD float64 `json:"saved_usd"`
	Bytes    int64   `json:"bytes"`
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
	counted := countsOf(admincli.Metrics(ctx, conn))
	all := []cacheStatus{}
	for _, i := range items {
		s := cacheStatus{Name: i.Name, Error: i.Status.Error, Counts: counted[i.Name]}
		if o, ok := i.Object.(*configv1.ResponseCache); ok {
			s.Models, s.Disabled, s.Of = o.GetModels(), o.GetDisabled(), cacheOwner(o)
		}
		all = append(all, s)
	}
	return c.Show(stdout, all, func(out *console.Text) {
		out.Names = adminflags.Names(ctx, client)
		cacheTable(out, all)
	})
}

func cacheOwner(o *configv1.ResponseCache) string {
	if o.GetKey() != "" {
		return "key " + o.GetKey()
	}
	return strings.TrimSuffix(o.GetOrganization()+"/"+o.GetProject(), "/")
}

// countsOf adds up the metrics of each response cache.
func countsOf(metrics []admincli.Metric) map[string]*cacheCounts {
	counts := map[string]*cacheCounts{}
	of := func(m admincli.Metric) *cacheCounts {
		name := m.Labels["cache"]
		if counts[name] == nil {
			counts[name] = &cacheCounts{}
		}
		return counts[name]
	}
	for _, m := range metrics {
		switch m.Name {
		case "modelgate_cache_bytes":
			of(m).Bytes += int64(m.Value)
		case "modelgate_cache_saved_usd_total":
			of(m).SavedUSD += m.Value
		case "modelgate_cache_requests_total":
			switch m.Labels["result"] {
			case "miss":
				of(m).Misses += int64(m.Value)
			case "bypass":
				of(m).Bypassed += int64(m.Value)
			default:
				of(m).Hits += int64(m.Value)
			}
		}
	}
	return counts
}

func cacheTable(out *console.Text, all []cacheStatus) {
	unknown := false
	out.Table("There is no ResponseCache: see docs/response-cache.md.",
		[]string{"CACHE", "OF", "MODELS", "STATE", "HITS", "OF REQUESTS", "BYPASSED", "SAVED USD", "BYTES"},
		admincli.Rows(all, func(s cacheStatus) []string {
			state := "active"
			switch {
			case s.Error != "":
				state = "error: " + s.Error
			case s.Disabled:
				state = "disabled"
			}
			row := []string{s.Name, cmp.Or(out.Named(s.Of), "everybody"), cmp.Or(strings.Join(s.Models, ", "), "all"), state}
			n := s.Counts
			if n == nil {
				unknown = true
				return append(row, "?", "?", "?", "?", "?")
			}
			share := ""
			if asked := n.Hits + n.Misses; asked > 0 {
				share = strconv.FormatInt(100*n.Hits/asked, 10) + " %"
			}
			return append(row, number(n.Hits), share, number(n.Bypassed), strconv.FormatFloat(n.SavedUSD, 'f', 6, 64),
				number(n.Bytes))
		}))
	if unknown {
		out.Println("\nThe process at the admin address counts no requests: see the metrics of the ext_proc services.")
	}
}
