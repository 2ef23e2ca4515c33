package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestBatchesAreListedShownAndCancelled(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Key{Name: "key_1", DisplayName: "nightly"}}
	at := time.Now().Add(-time.Minute)
	later := time.Now().Add(time.Hour)
	object := func(text string) adminapi.TenantObject {
		return adminapi.TenantObject{Organization: "acme", Project: "web", Key: "key_1", Object: json.RawMessage(text),
			Progress: &adminapi.BatchProgress{At: at, PerMinute: 12, TriedAt: &at, WaitsUntil: &later, Status: 429,
				ErrorCode: "rate_limit_exceeded", Message: "Slow down."}}
	}
	f.batches = []adminapi.TenantObject{
		object(`{"id":"batch_1","model":"smart","status":"completed","created_at":1,"completed_at":2,"request_counts":{"total":810,"completed":807,"failed":3}}`),
		object(`{"id":"batch_2","endpoint":"/v1/embeddings","status":"in_progress","created_at":1,"expires_at":9,"request_counts":{"total":4,"completed":1}}`),
	}
	out, _ := c.run(t, exitOK, "batch", "list", "--key", "nightly", "--status", "completed")
	require.Contains(t, f.asked, "GET /admin/v1/batches?key=key_1&limit=50&status=completed")
	require.Regexp(t, `(?m)^nightly +acme/web +smart +completed, 3 failed +810 of 810 .*1970-01-01T00:00:02Z +batch_1$`, out)
	require.Regexp(t, `(?m)^nightly +acme/web +/v1/embeddings +in_progress +1 of 4 +1970-01-01T00:00:01Z +- +batch_2$`, out)

	f.batch = adminapi.BatchDetails{TenantObject: f.batches[0], Cost: &adminapi.BatchCost{USD: "1.25"}}
	f.failures = []adminapi.BatchFailure{{CustomID: "line-7", Status: 400, ErrorCode: "invalid_value", Message: "No."}}
	out, _ = c.run(t, exitOK, "batch", "get", "batch_1")
	for _, part := range []string{"Key:           nightly\n", "Cost:          $1.25\n", "State:         completed, 3 failed\n",
		"line-7          400     invalid_value  No."} {
		require.Contains(t, out, part)
	}
	require.NotContains(t, out, "Meets:", "it has ended")
	f.batch.TenantObject = f.batches[1]
	out, _ = c.run(t, exitOK, "batch", "get", "batch_2")
	require.Contains(t, out, "Rate:          12.0 requests a minute\nMeets:         429 rate_limit_exceeded, ")
	require.Contains(t, out, "Slow down.\nGoes on:       ")
	require.NotContains(t, out, "FAILED REQUEST")
	out, _ = c.run(t, exitOK, "batch", "cancel", "batch_2")
	require.Equal(t, "Batch batch_2 is in_progress\n", out)
	require.Contains(t, f.asked, "POST /admin/v1/batches/batch_2/cancel")
	c.run(t, exitUsage, "batch", "list", "--limit", "0")
}

func TestBudgetsSayWhoWillBeOver(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Key{Name: "key_1", DisplayName: "ci"}}
	resets, spent := time.Unix(86400, 0), time.Unix(3600, 0)
	f.budgets = adminapi.Budgets{LeftOut: 2, Items: []adminapi.BudgetUse{
		{Scope: "key/key_1", Unit: "day", USD: "10", Spent: "10.5", Forecast: "12", Resets: resets},
		{Scope: "organization/acme", DisplayName: "Acme", Unit: "month", USD: "10", Spent: "6", Forecast: "12",
			SpentAt: &spent, Resets: resets},
		{Scope: "project/acme/web", Unit: "month", USD: "10", Spent: "1", Forecast: "2", Resets: resets},
	}}
	out, _ := c.run(t, exitOK, "budget")
	require.Regexp(t, `(?m)^key ci +day +exhausted, 105 % +10.5 +10 +12 +- +1970-01-02T00:00:00Z$`, out)
	require.Regexp(t, `(?m)^organization Acme +month +will be over, 60 % .* +1970-01-01T01:00:00Z +1970`, out)
	require.Regexp(t, `(?m)^project acme/web +month +ok, 10 % `, out)
	require.Contains(t, out, "2 more budgets are not shown.")
}

func TestCachesSayWhatTheySave(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.ResponseCache{Name: "faq", Key: "key_1", Models: []string{"smart", "fast"}},
		&configv1.ResponseCache{Name: "away", Disabled: true}, &configv1.Key{Name: "key_1", DisplayName: "ci"}}
	f.metrics = "modelgate_cache_bytes{cache=\"faq\"} 2048\n"
	all := adminapi.CacheSums{Hits: 75, Misses: 25, Bypassed: 7, SavedUSD: "0.0125", SavedMS: 90_000}
	f.worth = adminapi.CacheWorth{CacheSums: all, Caches: []adminapi.NamedCacheSums{{Name: "faq", CacheSums: all}},
		Models: []adminapi.NamedCacheSums{{Name: "smart", CacheSums: all}},
		Prompts: []adminapi.PromptCache{{Provider: "claude", Model: "opus", InputTokens: 90, CachedTokens: 60,
			WrittenTokens: 5, Priced: true, SavedUSD: "0.5"}}}
	out, _ := c.run(t, exitOK, "cache", "--since", "7d")
	require.Regexp(t, `(?m)^MODEL +HITS +OF REQUESTS +SAVED USD +SAVED TIME\nsmart +75 +75 % +0.0125 +1m30s$`, out)
	require.Regexp(t, `(?m)^faq +key ci +smart, fast +active +75 +75 % +0.0125 +1m30s +7 +2048$`, out)
	require.Regexp(t, `(?m)^away +everybody +all +disabled +0 +- +0 +0s +0 +\?$`, out)
	require.Regexp(t, `(?m)^claude/opus +90 +60 +5 +0.5$`, out)
	out, _ = c.run(t, exitOK, "cache", "-o", "json")
	require.Contains(t, out, `"models":[{"name":"smart","hits":75,"misses":25,"bypassed":7,"saved_usd":"0.0125"`)
	require.Contains(t, out, `{"name":"faq","of":"key key_1","models":["smart","fast"],"bytes":2048,"hits":75,`)
}

func TestProviderHealthHasThoseThatFailFirst(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Unix(60, 0)
	f.health.Providers = []adminapi.ProviderHealth{
		{Provider: "echo", State: adminapi.ProviderUnused},
		{Provider: "frost", State: adminapi.ProviderFailing, LastError: "status 401", LastErrorAt: &at,
			Last15Minutes: adminapi.HealthWindow{Attempts: 50, Failed: 50},
			Last24Hours:   adminapi.HealthWindow{Attempts: 60, Failed: 50, Duration: adminapi.Percentiles{P50: 20, P95: 1500}}},
	}
	out, _ := c.run(t, exitFailed, "provider", "health")
	require.Regexp(t, `(?m)^PROVIDER .*\nfrost +failing +50 of 50 +50 of 60 +20ms +1.5s +1970-01-01T00:01:00Z +status 401\n`+
		`echo +unused +- +- +- +- +- +-$`, out)
	out, _ = c.run(t, exitOK, "provider", "health", "echo")
	require.NotContains(t, out, "frost")
	_, said := c.run(t, exitFailed, "provider", "health", "nobody")
	require.Contains(t, said, `there is no provider "nobody"`)
}

// A filter that names nothing is a mistake, whatever is listed: an empty list would seem to be an answer.
func TestAFilterThatNamesNothingSaysSo(t *testing.T) {
	startFakeAdmin(t)
	c := &cli{}
	for _, command := range []string{"key list", "quotas", "batch list", "audit", "requests", "findings"} {
		t.Run(command, func(t *testing.T) {
			_, said := c.run(t, exitUsage, append(strings.Fields(command), "--organization", "nobody")...)
			require.Contains(t, said, `there is no Organization "nobody"`)
			_, said = c.run(t, exitUsage, append(strings.Fields(command), "--project", "nobody/x")...)
			require.Contains(t, said, `there is no Organization "nobody"`)
		})
	}
	c.run(t, exitUsage, "batch", "list", "--status", "nothing")
}
