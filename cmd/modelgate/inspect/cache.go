package inspect

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
	"github.com/modelgate/modelgate/cmd/modelgate/report"
	"github.com/modelgate/modelgate/internal/usage"
)

// CacheCmd is the command cache.
type CacheCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Since string `default:"24h" placeholder:"WHEN" help:"Start of the hits by model: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
}

// Help is shown below the flags' summary.
func (CacheCmd) Help() string {
	return `The hits by model are those of the request log. The counters of a cache are those of the process at the admin
address since its start: of all requests, if it is modelgate run. Elsewhere, they are in the metrics of the ext_proc
services: modelgate_cache_requests_total.

Example:
  modelgate cache`
}

// A cacheReport says whether response caches are worth it.
type cacheReport struct {
	Caches []cacheStatus `json:"caches"`
	Models []cacheModel  `json:"models"` // those with hits
}

// A cacheModel is how many requests for a model a cache has answered.
type cacheModel struct {
	Model    string `json:"model"`
	Hits     int64  `json:"hits"`
	Requests int64  `json:"requests"` // hits included
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
	r := cacheReport{Caches: []cacheStatus{}}
	for _, i := range items {
		s := cacheStatus{Name: i.Name, Error: i.Status.Error, Counts: counted[i.Name]}
		if o, ok := i.Object.(*configv1.ResponseCache); ok {
			s.Models, s.Disabled, s.Of = o.GetModels(), o.GetDisabled(), cacheOwner(o)
		}
		r.Caches = append(r.Caches, s)
	}
	if r.Models, err = c.models(ctx, client); err != nil {
		return admincli.Said(err)
	}
	return c.Show(stdout, r, func(out *console.Text) {
		out.Names = adminapi.Names(ctx, client)
		cacheTable(out, r.Caches)
		out.Section([]string{"MODEL", "HITS", "REQUESTS", "SHARE"}, admincli.Rows(r.Models, func(m cacheModel) []string {
			return []string{m.Model, number(m.Hits), number(m.Requests), percentOf(m.Hits, m.Requests)}
		}))
	})
}

// models returns the models of which caches have answered requests.
func (c CacheCmd) models(ctx context.Context, client *adminapi.Client) ([]cacheModel, error) {
	now := time.Now()
	start, err := adminflags.ParseSince("--since", c.Since, now)
	if err != nil {
		return nil, err
	}
	all, err := report.Used(ctx, client, "model", start, now, nil)
	if err != nil {
		return nil, err
	}
	hits, err := report.Used(ctx, client, "model", start, now, map[string]string{"provider": usage.ResponseCache})
	models := []cacheModel{}
	for _, h := range hits {
		m := cacheModel{Model: h.Name, Hits: h.Requests}
		if i := slices.IndexFunc(all, func(u report.Usage) bool { return u.Name == h.Name }); i >= 0 {
			m.Requests = all[i].Requests
		}
		models = append(models, m)
	}
	return models, err
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
			return append(row, number(n.Hits), percentOf(n.Hits, n.Hits+n.Misses), number(n.Bypassed),
				strconv.FormatFloat(n.SavedUSD, 'f', 6, 64), number(n.Bytes))
		}))
	if unknown {
		out.Println("\nThe process at the admin address counts no requests: see the metrics of the ext_proc services.")
	}
}
