package incidents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/attention"
)

// TestWhatAChangeBreaksBeginsWithTheChange, and not when that was judged.
func TestWhatAChangeBreaksBeginsWithTheChange(t *testing.T) {
	g := newGateway(t)
	changed := g.now.Add(-10 * time.Second)
	var entries []adminapi.AuditEntry
	for i, e := range []adminapi.AuditEntry{
		{At: g.now.Add(-time.Hour), Kind: "Provider", Name: "old", Actor: "bob", Action: "created"},
		{At: changed, Kind: "Certificate", Name: "soon", Actor: "ann", Action: "created"},
		{At: changed.Add(time.Second), Kind: "Provider", Name: "new", Actor: "ann", Action: "created"},
		{At: changed.Add(2 * time.Second), Kind: "Model", Name: "m", Actor: "ann", Action: "created"}} {
		e.ID = string(rune('a' + i))
		entries = append(entries, e)
	}
	require.NoError(t, g.book.AppendAudit(t.Context(), entries))
	g.facts = attention.Facts{
		Objects: []attention.ObjectError{{Kind: "Provider", Name: "new", Error: "bad"},
			{Kind: "Provider", Name: "old", Error: "its file has vanished"}},
		Plane: []adminapi.DataPlaneClient{{Role: "envoy", Node: "e", Health: adminapi.HealthBehind}},
		Certificates: map[string]time.Time{"soon": g.now.Add(3 * 24 * time.Hour),
			"known": g.now.Add(13 * 24 * time.Hour)}}
	k := g.keeper()
	require.NoError(t, k.judge(t.Context()))
	g.now = g.now.Add(settles)
	require.NoError(t, k.judge(t.Context()))
	since := map[string]time.Time{}
	for _, i := range g.incidents(false) {
		since[i.Subject] = i.Since
	}
	seen := g.now.Add(-settles)
	require.Equal(t, map[string]time.Time{"object/Provider/new": changed.Add(time.Second), "object/Provider/old": seen,
		"dataplane/envoy/e": changed.Add(2 * time.Second), "certificate/soon": changed,
		"certificate/known": seen.Add(-24 * time.Hour)}, since)
}

// TestABudgetIsNearlySpentSinceTheRequestThatSpentIt, or since a change of the budget.
func TestABudgetIsNearlySpentSinceTheRequestThatSpentIt(t *testing.T) {
	for _, c := range []struct {
		name, spent string
		changed     time.Duration // ago
		ago         time.Duration
	}{
		{"the last request", "0.0081", 0, 59 * time.Second}, // 2 ms of each request
		{"one before", "0.0101", 0, 2*time.Minute - time.Second},
		{"a change", "0.0101", 30 * time.Second, 30 * time.Second},
		{"a change before", "0.0101", time.Hour, 2*time.Minute - time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGateway(t)
			for i := range 4 {
				g.sent(i, time.Duration(i+1)*time.Minute, 200, false)
			}
			if c.changed > 0 {
				require.NoError(t, g.book.AppendAudit(t.Context(), []adminapi.AuditEntry{{ID: "a", Kind: "Organization",
					Name: "acme", Actor: "ann", Action: "updated", At: g.now.Add(-c.changed)}}))
			}
			g.facts.Budgets = []adminapi.BudgetUse{{Scope: "organization/acme", Unit: "day", USD: "0.01", Spent: c.spent,
				Resets: g.now.Add(time.Hour)}}
			require.NoError(t, g.keeper().judge(t.Context()))
			require.Equal(t, g.now.Add(-c.ago), g.incidents(false)[0].Since)
		})
	}
}
