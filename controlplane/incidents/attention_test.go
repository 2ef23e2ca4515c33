package incidents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/incidents"
)

var now = time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)

func key(name string, expires time.Duration) *configv1.Key {
	return &configv1.Key{Name: name, DisplayName: "of " + name, ExpiresAt: timestamppb.New(now.Add(expires))}
}

func TestWhatNeedsAttention(t *testing.T) {
	until := now.Add(time.Minute)
	recent, long := now.Add(-14*time.Minute), now.Add(-15*time.Minute)
	month := func(scope, spent string) adminapi.BudgetUse {
		return adminapi.BudgetUse{Scope: scope, Unit: "month", USD: "10", Spent: spent, Resets: now.AddDate(0, 0, 11)}
	}
	disabled := key("off", time.Hour)
	disabled.Disabled = true
	brief := key("brief", time.Hour)
	brief.CreatedAt = timestamppb.New(now.Add(-time.Minute))
	for _, c := range []struct {
		name  string
		facts attention.Facts
		want  []adminapi.Attention
	}{
		{"all is well", attention.Facts{
			Providers: []adminapi.ProviderHealth{{Provider: "a", State: "ok"}, {Provider: "b", State: "degraded"},
				{Provider: "c", State: "unused"}},
			Budgets: []adminapi.BudgetUse{month("key/k", "7.99")},
			Keys:    []*configv1.Key{{Name: "ever"}, key("later", 8*24*time.Hour), key("past", -time.Second), disabled, brief},
			Plane:   []adminapi.DataPlaneClient{{Role: "envoy", Node: "e", Health: "ok"}},
		}, []adminapi.Attention{}},
		{"a provider fails, another cools", attention.Facts{Providers: []adminapi.ProviderHealth{
			{Provider: "a", State: "cooling", CoolingUntil: &until, LastError: "429"},
			{Provider: "b", State: "failing", LastError: "500", Last15Minutes: adminapi.HealthWindow{Attempts: 10, Failed: 9}},
		}}, []adminapi.Attention{
			{Kind: "provider_failing", Severity: "error", Object: "Provider b", Path: "/providers/b",
				Message: "The provider is failing: 9 of 10 attempts in 15 minutes failed, the last with: 500."},
			{Kind: "provider_cooling", Severity: "warning", Object: "Provider a", Path: "/providers/a",
				Message: "The provider is cooling until 12:01:00 UTC: 429."},
		}},
		{"a sink of the audit log fails", attention.Facts{Sinks: []adminapi.AuditSinkStatus{
			{Name: "well"}, {Name: "new", FailingSince: &recent, Error: "x"},
			{Name: "off", Disabled: true, FailingSince: &long},
			{Name: "ops", FailingSince: &long, Error: "it cannot be reached", Backlog: 7},
		}}, []adminapi.Attention{{Kind: "audit_sink", Severity: "error", Object: "AuditSink ops",
			Path:    "/objects/AuditSink/ops",
			Message: "The sink has not taken the audit log since 2026-05-20 11:45 UTC: it cannot be reached. 7 entries wait in the ledger."}}},
		{"a change waits", attention.Facts{Waiting: []time.Time{long}}, []adminapi.Attention{{Kind: "approvals",
			Severity: "warning", Path: "/approvals",
			Message: "1 change waits for a second person's approval, since 2026-05-20 11:45 UTC."}}},
		{"changes wait", attention.Facts{Waiting: []time.Time{long, recent}}, []adminapi.Attention{{Kind: "approvals",
			Severity: "warning", Path: "/approvals",
			Message: "2 changes wait for a second person's approval, since 2026-05-20 11:45 UTC."}}},
		{"a credential is refused", attention.Facts{Rejected: []attention.Rejection{{Provider: "a", Times: 1, Last: now}}},
			[]adminapi.Attention{{Kind: "credential_rejected", Severity: "error", Object: "Provider a", Path: "/providers/a",
				Message: "The provider has refused the credential once in the last 15 minutes, the last time at 12:00:00 UTC."}}},
		{"a checker is away", attention.Facts{Unjudged: []attention.Unjudged{{Rule: "harm/violence", Times: 3, Last: now}}},
			[]adminapi.Attention{{Kind: "checker_away", Severity: "error", Object: "Guardrail harm",
				Path:    "/objects/Guardrail/harm",
				Message: "The checker of the rule harm/violence has not answered, and requests were refused 3 times in the last 15 minutes, the last time at 12:00:00 UTC. The log of extproc has the cause."}}},
		{"budgets", attention.Facts{Budgets: []adminapi.BudgetUse{month("project/acme/web", "8"),
			month("organization/acme", "10")}}, []adminapi.Attention{
			{Kind: "budget", Severity: "error", Object: "Organization acme", Path: "/organizations/acme",
				Message: "100 % of the budget of $10 a month of acme is spent. It resets on 2026-05-31 12:00 UTC. Until then requests are refused."},
			{Kind: "budget", Severity: "warning", Object: "Project acme/web", Path: "/projects/acme/web",
				Message: "80 % of the budget of $10 a month of acme/web is spent. It resets on 2026-05-31 12:00 UTC."},
		}},
		{"a key expires", attention.Facts{Keys: []*configv1.Key{key("b", 7*24*time.Hour), key("a", time.Hour)}},
			[]adminapi.Attention{
				{Kind: "key_expires", Severity: "warning", Object: "Key a", Path: "/keys/a",
					Message: "The key of a expires on 2026-05-20 13:00 UTC."},
				{Kind: "key_expires", Severity: "warning", Object: "Key b", Path: "/keys/b",
					Message: "The key of b expires on 2026-05-27 12:00 UTC."}}},
		{"an object has no effect", attention.Facts{Objects: []attention.ObjectError{{Kind: "Route", Name: "a b/c",
			Error: "there is no Provider x"}}}, []adminapi.Attention{{Kind: "object_error", Severity: "error",
			Object: "Route a b/c", Path: "/objects/Route/a%20b/c",
			Message: "The object, or its last change, has no effect: there is no Provider x"}}},
		{"the data plane lags", attention.Facts{Plane: []adminapi.DataPlaneClient{
			{Role: "envoy", Node: "e", Health: "behind"}, {Role: "extproc", Node: "x", Health: "refused", Error: "bad."}}},
			[]adminapi.Attention{
				{Kind: "data_plane", Severity: "error", Path: "/data-plane", Message: "extproc x: refused. bad."},
				{Kind: "data_plane", Severity: "warning", Path: "/data-plane",
					Message: "envoy e does not use the newest configuration."}}},
		{"a spool is full", attention.Facts{Spools: []attention.SpoolTrouble{{Process: "x", Trouble: "full", Dropped: 2}}},
			[]adminapi.Attention{{Kind: "spool", Severity: "error", Path: "/data-plane",
				Message: "The spool of x, which keeps records of usage: full. " +
					"It has dropped 2 records: what they cost is not charged."}}},
		{"a Redis is away", attention.Facts{Spools: []attention.SpoolTrouble{{Process: "x", Stores: "Redis is away."}}},
			[]adminapi.Attention{{Kind: "store", Severity: "error", Path: "/data-plane", Message: "x: Redis is away."}}},
		{"the ledger is away", attention.Facts{Ledger: "the ledger is unreachable."}, []adminapi.Attention{{Kind: "ledger",
			Severity: "error", Path: "/data-plane",
			Message: "Usage, budgets and the health of providers are not known: the ledger is unreachable."}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.Now = now
			got := incidents.Attention(c.facts)
			for i := range got {
				waits := got[i].Kind == adminapi.AttentionApprovals || got[i].Kind == adminapi.AttentionKeyExpires
				require.Equal(t, waits, got[i].Subject == "")
				got[i].Subject = ""
			}
			require.ElementsMatch(t, c.want, got)
			if len(c.want) > 0 {
				require.Equal(t, c.want, got, "the worst first")
			}
		})
	}
}
