package seen

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/test/harness"
)

// compareEach holds that the request log has each request once, as what it was, and one of each kind with all that is
// told of it.
func (s *scene) compareEach(t *testing.T) {
	all, err := s.logged(t.Context(), nil)
	require.NoError(t, err)
	byID := map[string]adminapi.Exchange{}
	for _, e := range all {
		byID[e.RequestID] = e
	}
	require.Len(t, byID, len(s.asks))
	shown := map[string]bool{}
	for _, a := range s.asks {
		e, ok := byID[a.id]
		require.True(t, ok, "%s: no request %s", a.kind, a.id)
		a.exchange = e.ID
		if a.kind == "limit" || a.kind == "budget" { // which may be refused before the body is read
			require.Contains(t, []string{"", a.model}, e.Model, a.kind)
			require.Contains(t, []string{"", a.user}, e.User, a.kind)
			a.model, a.user = e.Model, e.User
		}
		input, cached, output := a.tokens()
		want := adminapi.Exchange{ID: e.ID, RequestID: a.id, Start: e.Start, DurationMS: e.DurationMS,
			FirstByteMS: e.FirstByteMS, Key: a.client.id, KeyName: e.KeyName, Organization: a.client.organization,
			Project: a.client.project, User: a.user,
			Operation: e.Operation, Model: a.model, Provider: a.last().provider, Upstream: a.last().model,
			Attempts: len(a.attempts), Stream: a.stream, Status: a.status, Outcome: a.outcome, ErrorCode: e.ErrorCode,
			InputTokens: input, CachedTokens: cached, OutputTokens: output, Estimated: !a.told && input > 0,
			CostUSD: usage.Nano(a.cost()).String(), Priced: e.Priced, PriceVersion: e.PriceVersion, Requests: e.Requests,
			RefusedBy: a.refuse, KeyHint: e.KeyHint, Reason: e.Reason}
		require.Equal(t, want, e, a.kind)
		require.Equal(t, a.client.id != "", e.KeyName != "", a.kind)
		require.Equal(t, a.outcome == "finished", e.Reason == "", "%s: %s", a.kind, e.Reason)
		require.LessOrEqual(t, e.Requests, int64(1))
		priced := a.refuse == "" && prices()[a.last().model] != (price{}) || a.kind == "hit"
		require.Equal(t, priced, e.Priced, a.kind)
		if a.outcome == "finished" {
			require.Empty(t, e.ErrorCode, a.kind)
		}
		if !shown[a.kind] {
			shown[a.kind] = true
			s.compareOne(t, a)
		}
	}
}

// compareOne compares the attempts of a request, and the lines that its cost is made of.
func (s *scene) compareOne(t *testing.T, a *ask) {
	e, err := s.admin.Request(t.Context(), a.exchange)
	require.NoError(t, err)
	require.Len(t, e.AttemptList, len(a.attempts), a.kind)
	require.NotEmpty(t, e.Why, a.kind)
	said := ""
	if a.refuse != "" && a.refuse != "request" {
		require.NotEmpty(t, a.said, a.kind)
		require.NotNil(t, e.Detail, a.kind)
		said = a.said[:min(len(a.said), 256)]
	}
	if e.Detail != nil {
		require.Equal(t, said, e.Detail.Message, a.kind)
	}
	require.Contains(t, strings.Join(strings.Fields(harness.Must(t, "", "requests", e.ID, "--data", s.Dir)), " "), e.Why)
	for i, got := range e.AttemptList {
		want := a.attempts[i]
		require.Equal(t, want, attempt{got.Provider, got.Model, got.Kind, got.Status, got.Error != ""}, "%s %d", a.kind, i)
	}
	if e.Cost == nil {
		return
	}
	var sum usage.Nano
	for _, line := range e.Cost.Lines {
		cost, err := usage.ParseUSD(line.CostUSD)
		require.NoError(t, err)
		sum += cost
	}
	require.Empty(t, e.Cost.Problem, a.kind)
	require.Equal(t, usage.Nano(a.cost()), sum, "%s: %+v", a.kind, e.Cost.Lines)
}

// compareFilters holds that each filter finds what it is to find.
func (s *scene) compareFilters(t *testing.T) {
	filters := map[string]func(*ask) string{"status": func(a *ask) string { return strconv.Itoa(a.status) },
		"refused_by": func(a *ask) string { return a.refuse }, "request_id": func(a *ask) string { return a.id }}
	for field, value := range fields() {
		filters[field] = value
	}
	filters["project"] = func(a *ask) string { return a.client.project }
	for field, value := range filters {
		counts := map[string]int{}
		for _, a := range s.asks {
			if v := value(a); v != "" && (field != "request_id" || len(counts) < 3) {
				counts[v]++
			}
		}
		require.NotEmpty(t, counts, field)
		for v, n := range counts {
			all, err := s.logged(t.Context(), map[string]string{field: v})
			require.NoError(t, err)
			require.Len(t, all, n, "%s=%s", field, v)
		}
	}
	for outcome, of := range map[string]func(*ask) bool{
		"served":    func(a *ask) bool { return a.class() == "served" },
		"error":     func(a *ask) bool { return a.class() == "error" },
		"rejected":  func(a *ask) bool { return a.outcome == "rejected" },
		"cancelled": func(a *ask) bool { return a.outcome == "cancelled" },
		"truncated": func(a *ask) bool { return a.outcome == "truncated" },
		"gateway":   func(a *ask) bool { return a.outcome == "gateway" },
	} {
		all, err := s.logged(t.Context(), map[string]string{"outcome": outcome})
		require.NoError(t, err)
		require.Len(t, all, s.many(of), outcome)
		require.NotEmpty(t, all, outcome)
	}
	all, err := s.logged(t.Context(), map[string]string{"min_cost_usd": "0.001"})
	require.NoError(t, err)
	require.Len(t, all, s.many(func(a *ask) bool { return a.cost() >= 1_000_000 }))
}

func (s *scene) many(of func(*ask) bool) (n int) {
	for _, a := range s.asks {
		if of(a) {
			n++
		}
	}
	return n
}

// get reads from the admin API as a form.
func (s *scene) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Admin+path, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+s.File(t, "admin-token"))
	response, err := s.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	return string(body)
}

// compareExports holds that both exports have every request once, at its cost.
func (s *scene) compareExports(t *testing.T) {
	want := map[string]string{}
	for _, a := range s.asks {
		input, cached, output := a.tokens()
		want[a.id] = fmt.Sprintln(a.client.id, a.status, a.outcome, a.refuse, input, cached, output, usage.Nano(a.cost()))
	}
	lines := map[string]string{}
	for line := range strings.Lines(s.get(t, "/admin/v1/requests?format=jsonl")) {
		var e adminapi.Exchange
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		require.NotContains(t, lines, e.RequestID)
		lines[e.RequestID] = fmt.Sprintln(e.Key, e.Status, e.Outcome, e.RefusedBy, e.InputTokens,
			e.CachedTokens, e.OutputTokens, e.CostUSD)
	}
	require.Equal(t, want, lines)
	rows, err := csv.NewReader(strings.NewReader(s.get(t, "/admin/v1/requests?format=csv"))).ReadAll()
	require.NoError(t, err)
	cells := map[string]string{}
	for _, row := range rows[1:] {
		at := map[string]string{}
		for i, name := range rows[0] {
			at[name] = row[i]
		}
		require.NotContains(t, cells, at["request_id"])
		cells[at["request_id"]] = fmt.Sprintln(at["key"], at["status"], at["outcome"], at["refused_by"], at["input_tokens"],
			at["cached_tokens"], at["output_tokens"], at["cost_usd"])
	}
	require.Equal(t, want, cells)
}
