package alerts

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

// TestAnIncidentIsToldOnceWhoeverDies has control planes that die between the transition of an incident and its
// message, and between the message and its delivery.
func TestAnIncidentIsToldOnceWhoeverDies(t *testing.T) {
	w, _ := newWorld(t, &configv1.AlertRule{Name: "incidents", Condition: configv1.AlertCondition_INCIDENT,
		Severity: "error", For: durationpb.New(0), ClearAfter: durationpb.New(0), Receivers: []string{"ops"}},
		&configv1.AlertRule{Name: "others", Condition: configv1.AlertCondition_INCIDENT, Severity: "warning",
			For: durationpb.New(0), Receivers: []string{"ops"}})
	book, err := ledger.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	store := incidents.NewStore(book.Database())
	w.incidents = store.List
	state := adminapi.ProviderFailing
	keep := func(done func([]adminapi.Incident) bool) { // and then it dies
		keeper := incidents.New(incidents.Options{Etcd: w.etcd, State: w.State, Log: book, Store: store,
			Logger: zap.NewNop(), Interval: 10 * time.Millisecond, KeyName: func(string) string { return "" },
			Facts: func(context.Context) (attention.Facts, error) {
				return attention.Facts{Providers: []adminapi.ProviderHealth{{Provider: "frost", State: state}}}, nil
			},
			Versions: func(context.Context, configv1.Kind, string) ([]adminapi.Version, error) { return nil, nil },
			Now: func() (now time.Time) {
				w.set(func() {
					if now = time.Now().Add(w.ahead); state == adminapi.ProviderOK {
						w.ahead += time.Minute
					}
				})
				return now
			}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = keeper.Run(ctx) }()
		require.Eventually(t, func() bool {
			all, err := store.List(t.Context(), true)
			return err == nil && done(all)
		}, patience, 10*time.Millisecond)
		cancel()
		<-ended
	}
	keep(func(all []adminapi.Incident) bool { return len(all) == 1 })

	free := clientv3.Compare(clientv3.Version(configstore.AlertsLeader), "=", 0)
	require.NoError(t, w.service().evaluate(t.Context(), free)) // and there it dies
	require.NoError(t, w.service().evaluate(t.Context(), free)) // as does the next one
	s := w.service()
	stop := w.run(s)
	w.ended(s, 1)
	stop()

	state = adminapi.ProviderOK
	keep(func(all []adminapi.Incident) bool { return all[0].State == adminapi.IncidentClosed })
	s = w.service()
	w.run(s)
	w.ended(s, 2)
	require.Equal(t, []string{adminapi.AlertFired, adminapi.AlertCleared}, w.types())
	all, err := store.List(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Len(t, all[0].Transitions, 2)
	require.Equal(t, all[0].ID, gjson.GetBytes(w.bodies[0], "data.incident").String())
	require.Contains(t, gjson.GetBytes(w.bodies[0], "data.message").String(), "/incidents/"+all[0].ID)
}
