package incidents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// TestStepsOfAnIncident has what becomes of an incident, by what is judged and what was.
func TestStepsOfAnIncident(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	since := now.Add(-5 * time.Minute)
	trouble := func(kind, severity string) Trouble {
		return Trouble{Subject: "provider/frost", What: "frost fails", Detail: "50 of 50.",
			Attention: adminapi.Attention{Kind: kind, Severity: severity, Path: "/providers/frost"}}
	}
	incident := func(better, last time.Time) kept {
		return kept{Incident: adminapi.Incident{ID: "inc_1", Kind: "provider_failing", Subject: "provider/frost",
			Severity: "error", State: "open", Since: since, Path: "/providers/frost",
			Why: "frost fails since 11:55:00 UTC: 50 of 50."}, Better: better, Last: last, version: 3}
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name       string
		found      []Trouble
		open       []kept
		unsure     bool
		changes    int
		transition string // state and kind
		until      time.Time
		better     time.Time
	}{
		{name: "all is well"},
		{name: "one opens", found: []Trouble{trouble("provider_failing", "error")}, changes: 1,
			transition: "open provider_failing"},
		{name: "one goes on", found: []Trouble{trouble("provider_failing", "error")},
			open: []kept{incident(time.Time{}, now)}},
		{name: "one changes", found: []Trouble{trouble("credential_rejected", "error")},
			open: []kept{incident(time.Time{}, now)}, changes: 1, transition: "open credential_rejected"},
		{name: "one gets better", open: []kept{incident(time.Time{}, now)}, changes: 1, better: now},
		{name: "one is better", open: []kept{incident(ago(59*time.Second), now)}},
		{name: "one is bad again", found: []Trouble{trouble("provider_failing", "error")},
			open: []kept{incident(ago(59*time.Second), now)}, changes: 1},
		{name: "one closes with its last bad event", open: []kept{incident(ago(time.Minute), ago(3*time.Minute))},
			changes: 1, transition: "closed provider_failing", until: ago(3 * time.Minute)},
		{name: "one closes with its only bad event", open: []kept{incident(ago(time.Minute), since)},
			changes: 1, transition: "closed provider_failing", until: since},
		{name: "one closes without", open: []kept{incident(ago(time.Minute), time.Time{})}, changes: 1,
			transition: "closed provider_failing", until: ago(time.Minute)},
		{name: "nothing is known", open: []kept{incident(ago(time.Hour), now)}, unsure: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := map[string]kept{}
			for _, k := range c.open {
				open[k.Subject] = k
			}
			got := step(now, c.found, map[string]time.Time{"provider/frost": since}, open, !c.unsure)
			require.Len(t, got, c.changes)
			if c.changes == 0 {
				return
			}
			after := got[0].after
			require.Equal(t, since, after.Since)
			require.Equal(t, "frost fails since 11:55:00 UTC: 50 of 50.", after.Why)
			require.Equal(t, c.better, after.Better)
			if c.transition == "" {
				require.Nil(t, got[0].transition)
				return
			}
			require.Equal(t, c.transition, got[0].transition.State+" "+got[0].transition.Kind)
			require.Equal(t, now, got[0].transition.At)
			if !c.until.IsZero() {
				require.Equal(t, c.until, *after.Until)
			}
		})
	}
}

// TestWhatComesAndGoesByItselfIsAwaited is of processes that take the newest configuration in a moment.
func TestWhatComesAndGoesByItselfIsAwaited(t *testing.T) {
	require.False(t, settled(adminapi.AttentionDataPlane, 19*time.Second))
	require.True(t, settled(adminapi.AttentionDataPlane, 20*time.Second))
	require.True(t, settled(adminapi.AttentionProviderFailing, 0))
}
