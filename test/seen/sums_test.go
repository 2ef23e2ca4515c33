package seen

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// compareHealth holds that each attempt is counted for its provider, as the vendors have counted them.
func (s *scene) compareHealth(t *testing.T) {
	attempts, failed, limited := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, a := range s.asks {
		for _, try := range a.attempts {
			attempts[try.provider]++
			if try.failed {
				failed[try.provider]++
			}
			if try.status == 429 {
				limited[try.provider]++
			}
		}
	}
	for _, p := range []string{"alpha", "beta", "tired", "faulty", "broken"} {
		require.Equal(t, s.vendors.count(p), attempts[p], "what the vendor %s was asked", p)
	}
	states := map[string]string{"alpha": "ok", "beta": "ok", "tired": "cooling", "absent": "failing", "broken": "failing",
		"faulty": "degraded", "echo": "untried"}
	if attempts["faulty"] < 2*failed["faulty"] {
		states["faulty"] = "failing"
	}
	health, err := s.admin.Health(t.Context())
	require.NoError(t, err)
	require.Len(t, health.Providers, len(states))
	for _, h := range health.Providers {
		require.Equal(t, states[h.Provider], h.State, h.Provider)
		require.Equal(t, h.State == "cooling", h.CoolingUntil != nil, h.Provider)
		for _, w := range []adminapi.HealthWindow{h.Last15Minutes, h.Last24Hours} {
			require.Equal(t, attempts[h.Provider], w.Attempts, h.Provider)
			require.Equal(t, failed[h.Provider], w.Failed, h.Provider)
			require.Equal(t, limited[h.Provider], w.RateLimited, h.Provider)
			if w.Attempts > 0 {
				require.InDelta(t, 1-float64(w.Failed)/float64(w.Attempts), w.SuccessRate, 1e-9, h.Provider)
			}
		}
	}
}

// compareSums compares the summary, of everything and of one of each.
func (s *scene) compareSums(t *testing.T) {
	sum, err := s.admin.Summary(t.Context(), adminapi.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, s.sum(everything), exact(sum.Totals))
	byHour := adminapi.Totals{}
	for _, h := range sum.Hours {
		byHour.Requests += h.Requests
	}
	require.Equal(t, sum.Requests, byHour.Requests)
	for field, list := range map[string][]adminapi.NamedTotals{"model": sum.Models, "provider": sum.Providers} {
		want := s.groups(field)
		require.Len(t, list, min(len(want), 10), field)
		for _, g := range list {
			require.Equal(t, want[g.Name], exact(g.Totals), "%s %s", field, g.Name)
		}
	}
	var times []int64
	all, err := s.logged(t.Context(), map[string]string{"outcome": "finished"})
	require.NoError(t, err)
	for _, e := range all {
		times = append(times, e.DurationMS)
	}
	slices.Sort(times)
	within(t, "the summary", times, 0.5, sum.LatencyP50)
	within(t, "the summary", times, 0.95, sum.LatencyP95)
	for _, field := range []string{"model", "provider", "key", "organization"} {
		for name, want := range s.groups(field) {
			got, err := s.admin.Summary(t.Context(), adminapi.ListOptions{Filters: map[string]string{field: name}})
			require.NoError(t, err)
			require.Equal(t, want, exact(got.Totals), "%s %s", field, name)
		}
	}
}

// compareSeries compares the sums over time of each group, in buckets of each width.
func (s *scene) compareSeries(t *testing.T) {
	for field := range fields() {
		want := s.groups(field)
		for _, width := range []string{"1m", "5m", "1h", "1d"} {
			q := adminapi.SeriesQuery{Start: s.begin.Add(-time.Minute), End: time.Now().Add(time.Minute),
				Width: width, By: field, Groups: 100, Detailed: 100}
			got, err := s.admin.Series(t.Context(), q.Values())
			require.NoError(t, err)
			require.Equal(t, s.sum(everything), exact(got.Totals), "%s %s", field, width)
			named := map[string]adminapi.Totals{}
			for _, g := range got.Groups {
				named[g.Name] = exact(g.Totals)
				if g.Name != "" || field != "user" { // sums by user do not know when nobody is named
					require.Equal(t, g.Totals.Requests, added(g.Buckets), "%s %s", field, g.Name)
				}
			}
			require.Equal(t, want, named, "%s %s", field, width)
			require.Equal(t, got.Requests, added(got.Buckets), "%s %s", field, width)
		}
	}
}

func added(buckets []adminapi.SummaryHour) (requests int64) {
	for _, b := range buckets {
		requests += b.Requests
	}
	return requests
}

// compareOutcomes compares the counts of classes, of everything and of one key.
func (s *scene) compareOutcomes(t *testing.T) {
	for _, key := range []string{"", s.keys[0].id, s.keys[limited].id} {
		want := map[string]int64{}
		for _, a := range s.asks {
			if key == "" || key == a.client.id {
				want[a.class()]++
			}
		}
		for _, width := range []string{"60", "3600"} {
			o := adminapi.ListOptions{Filters: map[string]string{"width": width,
				"start": strconv.FormatInt(s.begin.Unix()-60, 10)}}
			if key != "" {
				o.Filters["key"] = key
			}
			got, err := s.admin.Outcomes(t.Context(), o)
			require.NoError(t, err)
			classes := map[string]int64{}
			for _, b := range got.Buckets {
				for class, n := range map[string]int64{"served": b.Served, "error": b.Errors, "rejected": b.Rejected,
					"cancelled": b.Cancelled} {
					if n > 0 {
						classes[class] += n
					}
				}
			}
			require.Equal(t, want, classes, "key %q, width %s", key, width)
		}
	}
}

// compareUsage compares the pages of OpenAI's usage API, which counts no requests that a provider has rejected.
func (s *scene) compareUsage(t *testing.T) {
	var used, costs struct {
		Data []struct {
			Results []struct {
				Key      string                      `json:"api_key_id"`
				Requests int64                       `json:"num_model_requests"`
				Input    int64                       `json:"input_tokens"`
				Cached   int64                       `json:"input_cached_tokens"`
				Output   int64                       `json:"output_tokens"`
				Amount   struct{ Value json.Number } `json:"amount"`
			} `json:"results"`
		} `json:"data"`
	}
	query := url.Values{"start_time": {strconv.FormatInt(s.begin.Add(-time.Hour).Unix(), 10)}, "bucket_width": {"1d"},
		"group_by": {"api_key_id"}}.Encode()
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/v1/organization/usage/completions?"+query)), &used))
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/v1/organization/costs?"+query)), &costs))
	want, found := map[string]string{}, map[string]string{}
	for key, sum := range s.groups("key") {
		served := s.many(func(a *ask) bool { return a.client.id == key && a.refuse == "" && a.outcome != "rejected" })
		want[key] = fmt.Sprint(served, sum.InputTokens, sum.CachedTokens, sum.OutputTokens)
		want["cost of "+key] = sum.CostUSD
	}
	for _, b := range used.Data {
		for _, r := range b.Results {
			found[r.Key] = fmt.Sprint(r.Requests, r.Input, r.Cached, r.Output)
		}
	}
	for _, b := range costs.Data {
		for _, r := range b.Results {
			found["cost of "+r.Key] = r.Amount.Value.String()
		}
	}
	require.Equal(t, want, found)
}

// compareBudgets compares what is spent of each budget, and what keys have consumed.
func (s *scene) compareBudgets(t *testing.T) {
	got, err := s.admin.Budgets(t.Context())
	require.NoError(t, err)
	require.Len(t, got.Items, 2)
	for i, key := range []int{broke, spender} { // the greatest part first
		of := s.keys[key].id
		b := got.Items[i]
		require.Equal(t, "key/"+of, b.Scope)
		require.Equal(t, s.sum(func(a *ask) bool { return a.client.id == of }).CostUSD, b.Spent)
		used, err := s.admin.KeyConsumption(t.Context(), of)
		require.NoError(t, err)
		require.Len(t, used.Budgets, 1)
		require.Equal(t, b.Spent, used.Budgets[0].Spent)
	}
	used, err := s.admin.KeyConsumption(t.Context(), s.keys[limited].id)
	require.NoError(t, err)
	require.Len(t, used.Limits, 1)
	require.NotNil(t, used.Limits[0].Used)
	require.Equal(t, int64(5), *used.Limits[0].Used)
}

// compareAttention compares what a person must look at.
func (s *scene) compareAttention(t *testing.T) {
	got, err := s.admin.Attention(t.Context())
	require.NoError(t, err)
	want := []string{"provider_failing error Provider absent", "provider_failing error Provider broken",
		"provider_cooling warning Provider tired", "budget error Key " + s.keys[broke].id,
		"budget warning Key " + s.keys[spender].id, "key_expires warning Key " + s.keys[expires].id}
	ill := map[string]bool{"absent": true, "broken": true, "tired": true}
	health, err := s.admin.Health(t.Context())
	require.NoError(t, err)
	for _, h := range health.Providers {
		if h.Provider == "faulty" && h.State == "failing" {
			ill[h.Provider] = true
			want = append(want, "provider_failing error Provider faulty")
		}
	}
	want = append(want, s.failingModels(ill)...)
	want = append(want, s.refusedKeys()...)
	var found []string
	for _, a := range got.Items {
		found = append(found, fmt.Sprint(a.Kind, " ", a.Severity, " ", a.Object))
	}
	require.ElementsMatch(t, want, found)
}

// failingModels are the models of which half of the requests failed, and at least 20, at providers that are not ill.
func (s *scene) failingModels(ill map[string]bool) (all []string) {
	for model := range s.groups("model") {
		sum := s.sum(func(a *ask) bool { return a.model == model && !ill[a.last().provider] })
		if model != "" && sum.Errors >= 20 && 2*sum.Errors >= sum.Requests {
			all = append(all, "model_failing error Model "+model)
		}
	}
	return all
}

// refusedKeys are the keys of which at least 20 requests were refused for what is no limit, budget or guardrail, and
// not fewer than were served. Keys that nobody knows end alike.
func (s *scene) refusedKeys() (all []string) {
	refused, served := map[string]int{}, map[string]int{}
	for _, a := range s.asks {
		id := a.client.id
		if a.refuse == "unknown key" {
			id = ""
		}
		switch {
		case a.refuse == "":
			served[id]++
		case !strings.Contains(a.refuse, " limit ") && !strings.HasPrefix(a.refuse, "budget ") &&
			!strings.HasPrefix(a.refuse, "guardrail "):
			refused[id]++
		}
	}
	for id, n := range refused {
		switch {
		case n < 20 || n < served[id]:
		case id == "":
			all = append(all, "key_refused warning ")
		default:
			all = append(all, "key_refused warning Key "+id)
		}
	}
	return all
}
