package api_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

// judged runs a keeper until the test ends.
func judged(t *testing.T, b *bench, l *ledger.Ledger) {
	q := api.Queries(b.config)
	k := incidents.New(incidents.Options{Etcd: b.etcd, Facts: q.Facts, Versions: q.History.Versions,
		Undoes: q.History.Undoes, KeyName: q.KeyName,
		State: func() (configstore.State, bool) { return configstore.State{}, true }, Log: l,
		Store: incidents.NewStore(l.Database()), Logger: zap.NewNop(), Interval: 20 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = k.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestIncidentsAreToldToWhomItMayConcern(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	_, err := b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Organization{Name: "acme", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "1"}}},
		&configv1.Provider{Name: "openai", Vendor: "openai"}}, false)
	require.NoError(t, err)
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{refusedExchange("a", 5e9), refusedExchange("b", 4e9),
		refusedExchange("c", 0)}))
	judged(t, b, l)
	var all adminapi.Incidents
	require.Eventually(t, func() bool {
		all, err = b.client.Incidents(t.Context())
		return err == nil && len(all.Items) == 2
	}, 20*time.Second, 20*time.Millisecond)
	byKind := map[string]adminapi.Incident{}
	for _, i := range all.Items {
		byKind[i.Kind] = i
	}
	refused := byKind[adminapi.AttentionCredentialRejected]
	require.Equal(t, "Provider openai", refused.Object)
	require.Equal(t, int64(3), refused.Hit.Requests)
	require.Equal(t, []string{"acme"}, refused.Hit.Organizations)
	require.Equal(t, "Organization acme", byKind[adminapi.AttentionBudget].Object)

	// What needs attention names its incident.
	needs, err := b.client.Attention(t.Context())
	require.NoError(t, err)
	for _, a := range needs.Items {
		require.Equal(t, byKind[a.Kind].Subject, a.Subject)
	}

	noted, err := b.client.NoteIncident(t.Context(), refused.ID, adminapi.IncidentNoteRequest{Acknowledge: true,
		Text: "The new key comes at noon."})
	require.NoError(t, err)
	require.Equal(t, "root", noted.AcknowledgedBy)
	found, err := b.client.Incident(t.Context(), refused.ID)
	require.NoError(t, err)
	require.Equal(t, "The new key comes at noon.", found.Notes[0].Text)
	_, err = b.client.NoteIncident(t.Context(), refused.ID, adminapi.IncidentNoteRequest{})
	require.ErrorContains(t, err, "Give a text")
	_, err = b.client.Incident(t.Context(), "inc_none")
	require.ErrorContains(t, err, "There is no incident")

	// Whoever may not read organizations does not hear of them.
	made, err := b.client.CreateToken(t.Context(), adminapi.TokenRequest{DisplayName: "probe",
		Scopes: []string{"status:read"}})
	require.NoError(t, err)
	a := b.do(t, "GET", "/admin/v1/incidents?closed=true", "", "Authorization: Bearer "+made.Token)
	require.Equal(t, 200, a.status)
	var seen adminapi.Incidents
	require.NoError(t, json.Unmarshal([]byte(a.body), &seen))
	require.Len(t, seen.Items, 1)
	require.NotContains(t, a.body, "acme")
	require.Nil(t, seen.Items[0].Change)
}
