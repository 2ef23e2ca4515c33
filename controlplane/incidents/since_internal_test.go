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
