package api_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// An exchange that was refused for the credential of the provider, and has cost.
func refusedExchange(id string, cost int64) *ledgerv1.Record {
	now := timestamppb.Now()
	return &ledgerv1.Record{Id: id, RequestId: id, Start: now, End: now, Key: "key_1", Organization: "acme",
		Operation: "chat/completions", Model: "m", Provider: "openai", Status: 502, Outcome: "failed", Attempts: 1,
		CostNanoUsd: cost, Priced: true,
		AttemptList: []*ledgerv1.Attempt{{Kind: "first", Provider: "openai", Status: 401, Error: "invalid_api_key"}}}
}

func TestAttentionTellsWhatIsWrongToWhomItMayConcern(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	_, err := b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Organization{Name: "acme", DisplayName: "Acme", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH,
			Usd: "10"}}},
		&configv1.Provider{Name: "openai", Vendor: "openai"}, &configv1.Provider{Name: "new", Vendor: "openai"},
		&configv1.Guardrail{Name: "harm", Rules: []*configv1.GuardRule{{Name: "violence",
			Mode: configv1.GuardMode_BLOCK, Words: []string{"x"}}}},
	}, false)
	require.NoError(t, err)
	b.status["Provider openai"] = "its credential is missing"
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{refusedExchange("a", 5e9), refusedExchange("b", 4e9),
		refusedExchange("c", 0)}))
	now := timestamppb.Now()
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{
		{Id: "d", RequestId: "d", Start: now, End: now, Key: "key_1", Model: "m", Status: 503, Outcome: "rejected",
			ErrorCode: "checker_unavailable", RefusedBy: "guardrail harm/violence"},
		{Id: "e", RequestId: "e", Start: now, End: now, Key: "key_1", Model: "m", Status: 400, Outcome: "rejected",
			ErrorCode: "content_blocked", RefusedBy: "guardrail pii/names"}}))

	found, err := b.client.Attention(t.Context())
	require.NoError(t, err)
	kinds := map[string]string{}
	for _, a := range found.Items {
		kinds[a.Kind] = a.Object + " " + a.Path
	}
	require.Equal(t, map[string]string{
		adminapi.AttentionCredentialRejected: "Provider openai /providers/openai",
		adminapi.AttentionObjectError:        "Provider openai /providers/openai",
		adminapi.AttentionCheckerAway:        "Guardrail harm /objects/Guardrail/harm",
		adminapi.AttentionBudget:             "Organization acme /organizations/acme",
	}, kinds)

	// Whoever may not read organizations does not hear of their budgets.
	made, err := b.client.CreateToken(t.Context(), adminapi.TokenRequest{DisplayName: "probe",
		Scopes: []string{"status:read"}})
	require.NoError(t, err)
	a := b.do(t, "GET", "/admin/v1/attention", "", "Authorization: Bearer "+made.Token)
	require.Equal(t, 200, a.status)
	var seen adminapi.Attentions
	require.NoError(t, json.Unmarshal([]byte(a.body), &seen))
	require.Len(t, seen.Items, 2)
	require.NotContains(t, a.body, "acme")
	require.Equal(t, 403, b.do(t, "GET", "/admin/v1/budgets", "", "Authorization: Bearer "+made.Token).status)
}

// A provider that is deleted, and one that nobody has asked, need nobody. Both are called what they are.
func TestWhatIsDeletedAlarmsNobody(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	_, err := b.client.Apply(t.Context(), []configv1.Object{&configv1.Provider{Name: "new", Vendor: "openai"}}, false)
	require.NoError(t, err)
	now := timestamppb.Now()
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{refusedExchange("a", 1), refusedExchange("b", 1),
		refusedExchange("c", 1), {Id: "d", RequestId: "d", Start: now, End: now, Key: "key_1", Model: "m", Status: 503,
			Outcome: "rejected", ErrorCode: "checker_unavailable", RefusedBy: "guardrail harm/violence"}}))
	found, err := b.client.Attention(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.Items)

	health, err := b.client.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"new", "openai"}, []string{health.Providers[0].Provider, health.Providers[1].Provider})
	require.Equal(t, adminapi.ProviderUntried, health.Providers[0].State)
	require.True(t, health.Providers[1].Deleted)
	series, err := b.client.Series(t.Context(), adminapi.SeriesQuery{Start: time.Now().Add(-time.Hour),
		End: time.Now().Add(time.Hour), Width: "1h", By: "provider", Groups: 9}.Values())
	require.NoError(t, err)
	require.Equal(t, "openai", series.Groups[0].Name)
	require.True(t, series.Groups[0].Deleted)
}

func TestBudgetsTellWhatWillBeSpent(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	_, err := b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Organization{Name: "acme", DisplayName: "Acme", Budgets: []*configv1.Budget{
			{Unit: configv1.Unit_MONTH, Usd: "100"}, {Unit: configv1.Unit_DAY, Usd: "9"}}},
		&configv1.Organization{Name: "idle", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "1"}}},
	}, false)
	require.NoError(t, err)
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{refusedExchange("a", 6e9)}))
	a := b.do(t, "GET", "/admin/v1/budgets", "")
	require.Equal(t, 200, a.status)
	found, err := b.client.Budgets(t.Context())
	require.NoError(t, err)
	require.Len(t, found.Items, 3)
	day, month, idle := found.Items[0], found.Items[1], found.Items[2]
	require.Equal(t, []string{"organization/acme", "Acme", "day", "6"}, []string{day.Scope, day.DisplayName, day.Unit,
		day.Spent})
	require.Equal(t, 66, day.Percent(day.Spent))
	require.Equal(t, "month", month.Unit)
	require.Equal(t, "0", idle.Forecast)
	require.Greater(t, month.Percent(month.Forecast), 5)
	require.GreaterOrEqual(t, day.Percent(day.Forecast), day.Percent(day.Spent))

	a = b.do(t, "GET", "/admin/v1/series?by=organization&width=1m&start="+strconv.FormatInt(time.Now().Add(-10*time.Minute).Unix(), 10), "")
	require.Equal(t, 200, a.status)
	var s adminapi.Series
	require.NoError(t, json.Unmarshal([]byte(a.body), &s))
	require.Equal(t, "Acme", s.Groups[0].DisplayName)
	require.Equal(t, "6", s.CostUSD)
	require.Equal(t, 400, b.do(t, "GET", "/admin/v1/series?by=hue", "").status)
}
