package api_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// withLedger gives the bench a ledger before its first request.
func withLedger(t *testing.T, b *bench) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	b.config.Ledger = l
	return l
}

func TestUsageAndConsumptionComeFromTheLedger(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	_, err := b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Organization{Name: "org", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "10"}}},
		&configv1.Project{Name: "org/p", Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_DAY,
			RequestsPerUnit: 1000, Model: "m"}}},
	}, false)
	require.NoError(t, err)
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{
		DisplayName: "ci", Organization: "org", Project: "p", Budgets: []adminapi.Budget{{Unit: "DAY", USD: "1"}},
		Limits: []adminapi.Limit{{Domain: "requests", Unit: "HOUR", RequestsPerUnit: 50},
			{Domain: "concurrency", RequestsPerUnit: 3}, {Domain: "tokens", Unit: "DAY", RequestsPerUnit: 9, Model: "echo/*"}},
	})
	require.NoError(t, err)
	now := time.Now()
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{{
		Id: "r1", RequestId: "req", Start: timestamppb.New(now), End: timestamppb.New(now), Key: made.ID,
		Organization: "org", Project: "p", User: "=cmd()",
		Operation: "chat/completions", Model: "m", Provider: "echo", Status: 200, Outcome: "finished", InputTokens: 7,
		OutputTokens: 5,
		CostNanoUsd:  250_000_000, Priced: true, Attempts: 1,
	}}))

	c, err := b.client.KeyConsumption(t.Context(), made.ID)
	require.NoError(t, err)
	used := map[string]int64{}
	for _, limit := range c.Limits {
		if limit.Used != nil {
			used[limit.Scope+" "+limit.Domain+" "+limit.Unit] = *limit.Used
		}
	}
	require.Equal(t, map[string]int64{"key/" + made.ID + " requests hour": 1, "project/org/p tokens day": 12}, used)
	require.Len(t, c.Limits, 4)
	require.Len(t, c.Budgets, 2)
	for _, budget := range c.Budgets {
		require.Equal(t, "0.25", budget.Spent, budget.Scope)
		require.True(t, budget.Resets.After(now))
	}
	require.WithinDuration(t, now, *c.LastUsed, time.Second)
	b.do(t, "GET", "/admin/v1/keys/"+made.ID+"/consumption", "")

	for path, want := range map[string]string{
		"/admin/v1/usage/completions?start_time=1700000000": `"object":"page"`,
		"/admin/v1/usage/costs?start_time=1700000000":       `"object":"page"`,
		"/v1/organization/costs?start_time=1700000000":      `"object":"page"`,
		"/v1/organization/usage/embeddings?start_time=1":    `"object":"page"`,
		"/admin/v1/summary":                                 `"requests":1`,
		"/admin/v1/requests?key=" + made.ID:                 `"user":"=cmd()"`,
	} {
		a := b.do(t, "GET", path, "")
		require.Equal(t, 200, a.status, path+a.body)
		require.Contains(t, a.body, want, path)
	}
	for _, path := range []string{"/admin/v1/usage/completions", "/admin/v1/usage/completions?start_time=x",
		"/admin/v1/usage/nothing?start_time=1", "/admin/v1/summary?start=x", "/admin/v1/requests?after=%27;DROP%20TABLE"} {
		a := b.do(t, "GET", path, "")
		require.Contains(t, []int{400, 404}, a.status, path)
	}
	start := now.Add(-24 * time.Hour).Unix()
	for _, ask := range [][]string{{"?format=csv"}, {"", "Accept: text/csv"}} {
		a := b.do(t, "GET", "/admin/v1/requests"+ask[0], "", ask[1:]...)
		require.Equal(t, "text/csv; charset=utf-8", a.header.Get("Content-Type"))
		rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Contains(t, rows[1], "'=cmd()", "no formula")
	}
	a := b.do(t, "GET", "/admin/v1/usage/completions?format=csv&group_by=user_id&bucket_width=1d&limit=1&start_time="+
		itoa(start), "")
	require.Equal(t, 200, a.status, a.body)
	rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"start_time", "end_time"}, rows[0][:2])
	require.Len(t, rows, 2, "of all pages: %s", a.body)
	require.Contains(t, rows[1], "'=cmd()")
}

func TestWithoutALedgerWhatAsksForItIsA503(t *testing.T) {
	b := newBench(t)
	requireError(t, b.do(t, "GET", "/admin/v1/summary", ""), 503, "ledger_unavailable", "not lost")
	b.ledger.setAway(true)
	requireError(t, b.do(t, "GET", "/admin/v1/audit", ""), 503, "ledger_unavailable", "")
}

// TestKeyTrafficIsForWhoSeesTheKeys has one key of each of two tenants, and an unknown key.
func TestKeyTrafficIsForWhoSeesTheKeys(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	var ids []string
	keys := map[string]configv1.Object{}
	for _, name := range []string{"one", "two"} {
		made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: name, Organization: name},
			adminapi.CreateMissing)
		require.NoError(t, err)
		ids = append(ids, made.ID)
		keys[made.ID] = &configv1.Key{Name: made.ID, DisplayName: name, Organization: name}
	}
	b.plane.keys = func() (int64, map[string]configv1.Object) { return 1, keys }
	at := timestamppb.New(time.Now().Add(-time.Minute))
	var records []*ledgerv1.Record
	for i, key := range []string{ids[0], ids[1], ""} {
		organization := map[string]string{ids[0]: "one", ids[1]: "two"}[key]
		records = append(records, &ledgerv1.Record{Id: fmt.Sprint("refused", i), Start: at, End: at, Key: key,
			Organization: organization, KeyHint: map[bool]string{true: "9896"}[key == ""], Status: 401, Outcome: "rejected",
			RefusedBy: "request", Requests: int64(30 + i)})
	}
	records = append(records, &ledgerv1.Record{Id: "served", Start: at, End: at, Key: ids[0], Organization: "one",
		Model: "m", Provider: "echo", Status: 200, Outcome: "finished", CostNanoUsd: 250_000_000, Priced: true, Attempts: 1})
	require.NoError(t, l.Record(t.Context(), records))

	all, err := b.client.KeyTraffic(t.Context(), url.Values{"key": {ids[1], ids[0]}})
	require.NoError(t, err)
	when := at.AsTime().Truncate(time.Microsecond)
	require.Equal(t, []adminapi.KeyUse{{Key: ids[1], Refused: 31, CostUSD: "0", LastUsed: &when},
		{Key: ids[0], Requests: 1, Refused: 30, CostUSD: "0.25", LastUsed: &when}}, all.Items)
	require.True(t, all.Items[0].RefusedMuch())
	require.Equal(t, []adminapi.RejectedKey{{Hint: "9896", Refused: 32, Last: &when},
		{Key: ids[1], KeyName: "two", Refused: 31, Last: &when}, {Key: ids[0], KeyName: "one", Refused: 30, Last: &when}},
		all.Rejected)
	viewer := member("one", "", configv1.Role_VIEWER)
	answer := b.as(t, viewer, "GET", "/admin/v1/key-traffic?key="+ids[0])
	require.Equal(t, 200, answer.status, answer.body)
	var own adminapi.KeyTraffic
	require.NoError(t, json.Unmarshal([]byte(answer.body), &own))
	require.Equal(t, all.Items[1:], own.Items)
	require.Equal(t, all.Rejected[2:], own.Rejected)
	require.Equal(t, 404, b.as(t, viewer, "GET", "/admin/v1/key-traffic?key="+ids[1]).status)
	for query, status := range map[string]int{"?start=5&end=4": 400, "?nothing=1": 400, "?key=": 400, "": 200} {
		require.Equal(t, status, b.do(t, "GET", "/admin/v1/key-traffic"+query, "").status, query)
	}
}

// TestCacheWorthHasHitsAndPrompts has hits of two caches, and a provider that reads half of a prompt from its cache.
func TestCacheWorthHasHitsAndPrompts(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	_, err := b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Provider{Name: "alpha", Vendor: "openai", Endpoint: "http://127.0.0.1:1",
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "x"}}},
		&configv1.Catalog{Name: "default", Version: "1", Models: []*configv1.ModelFacts{{Vendors: []string{"openai"},
			Models: []string{"alpha-1"}, Price: &configv1.Price{Input: "10", CachedInput: "1", Output: "20"}}}}}, false)
	require.NoError(t, err)
	var records []*ledgerv1.Record
	for i, text := range []string{"miss faq", "hit faq (1 s old, 0.25 USD saved)",
		"hit other (1 s old, 0.5 USD saved)"} {
		begin := time.Now().Add(-time.Minute)
		r := &ledgerv1.Record{Id: text, Start: timestamppb.New(begin), End: timestamppb.New(begin.Add(time.Second)),
			Organization: "one", Model: "m", Provider: "response cache", Status: 200, Outcome: "finished",
			Details: &ledgerv1.Details{Cache: text}}
		if i == 0 {
			r.Provider, r.UpstreamModel, r.InputTokens, r.CachedTokens = "alpha", "alpha-1", 2_000_000, 1_000_000
			r.End = timestamppb.New(begin.Add(3 * time.Second))
		}
		records = append(records, r)
	}
	require.NoError(t, l.Record(t.Context(), records))
	got, err := b.client.CacheWorth(t.Context(), adminapi.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, adminapi.CacheSums{Hits: 2, Misses: 1, SavedUSD: "0.75", SavedMS: 2000}, got.CacheSums)
	require.Equal(t, int64(66), got.HitShare())
	require.Equal(t, []adminapi.NamedCacheSums{{Name: "m", CacheSums: got.CacheSums}}, got.Models)
	require.Equal(t, []adminapi.NamedCacheSums{
		{Name: "other", CacheSums: adminapi.CacheSums{Hits: 1, SavedUSD: "0.5"}},
		{Name: "faq", CacheSums: adminapi.CacheSums{Hits: 1, Misses: 1, SavedUSD: "0.25", SavedMS: 2000}}}, got.Caches)
	require.Equal(t, []adminapi.PromptCache{{Provider: "alpha", Model: "alpha-1", InputTokens: 2_000_000,
		CachedTokens: 1_000_000, Priced: true, SavedUSD: "9"}}, got.Prompts)
	require.Equal(t, "9", got.PromptsSavedUSD)
	none, err := b.client.CacheWorth(t.Context(), adminapi.ListOptions{Filters: map[string]string{"organization": "two"}})
	require.NoError(t, err)
	require.Empty(t, none.Models)
	require.Zero(t, none.HitShare())
	require.Equal(t, 400, b.do(t, "GET", "/admin/v1/cache?start=5&end=4", "").status)
}
