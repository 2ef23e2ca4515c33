package alerts

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	signing  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	patience = 20 * time.Second
)

// A world is what a service looks at and who it tells. It is safe for concurrent use.
type world struct {
	t    *testing.T
	etcd *clientv3.Client

	mu      sync.Mutex // guards what follows
	ailing  bool       // the ledger
	ahead   time.Duration
	objects []configv1.Object
	got     []*http.Request
	bodies  [][]byte
	answer  func(n int, w http.ResponseWriter)
	// incidents is of tests that have some; nil: there are none.
	incidents func(ctx context.Context, closed bool) ([]adminapi.Incident, error)
}

func newWorld(t *testing.T, receivers ...configv1.Object) (*world, *httptest.Server) {
	w := &world{t: t, etcd: etcdtest.Start(t), answer: func(int, http.ResponseWriter) {}}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.got, w.bodies = append(w.got, r), append(w.bodies, body)
		n, answer := len(w.got), w.answer
		w.mu.Unlock()
		answer(n, rw)
	}))
	t.Cleanup(server.Close)
	w.objects = append(receivers, &configv1.AlertRule{Name: "ledger", Condition: configv1.AlertCondition_LEDGER_TROUBLE,
		For: durationpb.New(0), ClearAfter: durationpb.New(0), Receivers: []string{"ops"}}, hook("ops", server.URL))
	return w, server
}

func hook(name, url string) *configv1.AlertReceiver {
	return &configv1.AlertReceiver{Name: name, Webhook: &configv1.AlertWebhook{Url: url},
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: signing}}}
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// State returns the configuration.
func (w *world) State() (configstore.State, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := configstore.State{Objects: map[string]map[string]configv1.Object{}}
	for _, o := range w.objects {
		kind := configv1.KindOf(o).Name
		if state.Objects[kind] == nil {
			state.Objects[kind] = map[string]configv1.Object{}
		}
		state.Objects[kind][o.GetName()] = o
	}
	return state, true
}

// ReceiverCredential returns that of the configuration.
func (*world) ReceiverCredential(r *configv1.AlertReceiver) (secret.Value, error) {
	return secret.New(r.GetCredential().GetValue()), nil
}

// Failures returns none.
func (*world) Failures(context.Context, time.Time, ledger.Restriction, string) (all, failed int64, err error) {
	return 0, 0, nil
}

// Refusals returns none.
func (*world) Refusals(context.Context, time.Time, ...int64) ([]ledger.Refusal, error) {
	return nil, nil
}

func (w *world) service() *Service {
	s, err := New(Options{Etcd: w.etcd, Ledger: w, Incidents: w.incidents, Plane: w,
		Log: zap.NewNop(), Interval: 50 * time.Millisecond,
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Facts: func(context.Context) (f attention.Facts, err error) {
			w.set(func() {
				if w.ailing {
					f.Ledger = "it is away."
				}
			})
			return f, nil
		},
		Now: func() (now time.Time) {
			w.set(func() { now = time.Now().Add(w.ahead) })
			return now
		}})
	require.NoError(w.t, err)
	return s
}

// run runs a service until the test ends, or until what it returns is called.
func (w *world) run(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

// delivered waits until the history says of so many events that their delivery has ended, and returns them.
func (w *world) ended(s *Service, n int) (all []adminapi.AlertEvent) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		var err error
		all, err = s.History(w.t.Context())
		require.NoError(w.t, err)
		ended := 0
		for _, e := range all {
			for _, d := range e.Deliveries {
				if d.State != adminapi.DeliveryWaiting {
					ended++
				}
			}
		}
		return ended == n
	}, patience, 20*time.Millisecond)
	return all
}

// types returns the types of what the receiver has got, by webhook-id once each.
func (w *world) types() (types []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	for i, r := range w.got {
		if id := r.Header.Get(standardwebhooks.HeaderWebhookID); !seen[id] {
			seen[id], types = true, append(types, gjson.GetBytes(w.bodies[i], "type").String())
		}
	}
	return types
}

func TestAReceiverThatFailsAtFirstHearsOfEachChangeOnceAndInOrder(t *testing.T) {
	w, _ := newWorld(t)
	w.answer = func(n int, rw http.ResponseWriter) {
		if n == 1 {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	s := w.service()
	w.set(func() { w.ailing = true })
	w.run(s)
	require.Eventually(t, func() bool {
		all, err := s.Alerts(t.Context())
		require.NoError(t, err)
		return len(all.Receivers) == 1 && all.Receivers[0].Error == "it answered with status 503"
	}, patience, 20*time.Millisecond, "a receiver that fails shows")
	w.set(func() { w.ailing = false })
	require.Eventually(t, func() bool {
		all, err := s.History(t.Context())
		require.NoError(t, err)
		return len(all) == 2
	}, patience, 20*time.Millisecond)
	w.set(func() { w.ahead = time.Minute })
	all := w.ended(s, 2)
	require.Equal(t, []string{adminapi.AlertFired, adminapi.AlertCleared}, w.types())
	require.Equal(t, 2, all[1].Deliveries[0].Attempts)
	verifier, err := standardwebhooks.NewWebhook(signing)
	require.NoError(t, err)
	for i, r := range w.got {
		require.NoError(t, verifier.VerifyIgnoringTimestamp(w.bodies[i], r.Header))
	}
	require.Equal(t, w.got[0].Header.Get(standardwebhooks.HeaderWebhookID),
		w.got[1].Header.Get(standardwebhooks.HeaderWebhookID))
}

func TestAControlPlaneThatDiesLosesNothingAndTellsNothingTwice(t *testing.T) {
	w, _ := newWorld(t)
	w.set(func() { w.ailing = true })
	free := clientv3.Compare(clientv3.Version(configstore.AlertsLeader), "=", 0)
	require.NoError(t, w.service().evaluate(t.Context(), free)) // and there it dies, before anything is delivered
	require.Empty(t, w.types())

	s := w.service()
	w.run(s)
	w.ended(s, 1)
	require.Equal(t, []string{adminapi.AlertFired}, w.types())
	alerts, err := s.Alerts(t.Context())
	require.NoError(t, err)
	require.Equal(t, adminapi.AlertFiring, alerts.Items[0].State)
}

func TestWhoDiesWhileItDeliversDeliversTheSameMessageAgain(t *testing.T) {
	w, _ := newWorld(t)
	w.set(func() { w.ailing = true })
	arrived, release := make(chan struct{}), make(chan struct{})
	w.answer = func(n int, _ http.ResponseWriter) {
		if n == 1 {
			close(arrived)
			<-release
		}
	}
	t.Cleanup(func() { close(release) })
	stop := w.run(w.service())
	<-arrived
	stop()
	s := w.service()
	w.run(s)
	w.ended(s, 1)
	require.Equal(t, []string{adminapi.AlertFired}, w.types(), "both have the same webhook-id")
	require.Len(t, w.got, 2)
}

func TestOneOfTwoControlPlanesTells(t *testing.T) {
	w, _ := newWorld(t)
	one, two := w.service(), w.service()
	w.run(one)
	w.run(two)
	for i, ailing := range []bool{true, false, true, false} {
		w.set(func() { w.ailing = ailing })
		w.ended(one, i+1)
	}
	require.Len(t, w.got, 4, "each once, also on the wire")
}

func TestAChangeThatAnotherHasMadeIsNotMadeAgain(t *testing.T) {
	w, _ := newWorld(t)
	free := clientv3.Compare(clientv3.Version(configstore.AlertsLeader), "=", 0)
	s := store{w.etcd}
	c := change{id: "r.1", after: &adminapi.Alert{Rule: "r"}, event: &adminapi.AlertEvent{}}
	_, err := s.apply(t.Context(), free, c, 0, 1)
	require.NoError(t, err)
	_, err = s.apply(t.Context(), free, c, 0, 1)
	require.ErrorIs(t, err, errLost)
	lost := clientv3.Compare(clientv3.Version(configstore.AlertsLeader), ">", 0)
	_, err = s.apply(t.Context(), lost, change{id: "r.2"}, 0, 1)
	require.ErrorIs(t, err, errLost, "who does not lead changes nothing")
}

func TestAReceiverThatHangsHoldsUpNoOther(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(func() { close(release); silent.Close() })
	w, _ := newWorld(t, hook("silent", silent.URL))
	w.set(func() {
		w.ailing = true
		for _, o := range w.objects {
			if r, ok := o.(*configv1.AlertRule); ok {
				r.Receivers = []string{"silent", "ops"}
			}
		}
	})
	s := w.service()
	w.run(s)
	w.ended(s, 1)
	require.Equal(t, []string{adminapi.AlertFired}, w.types())
}

func TestADeliveryIsGivenUpAndTheHistorySaysSo(t *testing.T) {
	w, _ := newWorld(t)
	w.set(func() {
		w.ailing, w.answer = true, func(_ int,
			rw http.ResponseWriter) {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	s := w.service()
	w.run(s)
	require.Eventually(t, func() bool { return len(w.types()) == 1 }, patience, 20*time.Millisecond)
	w.set(func() { w.ahead = maxAge + time.Hour })
	d := w.ended(s, 1)[0].Deliveries[0]
	require.Equal(t, adminapi.DeliveryGivenUp, d.State)
	require.Equal(t, "it answered with status 500", d.Error)
}

func TestAFullOutboxIsSaid(t *testing.T) {
	w, _ := newWorld(t)
	s := store{w.etcd}
	free := clientv3.Compare(clientv3.Version(configstore.AlertsLeader), "=", 0)
	told, err := s.apply(t.Context(), free, change{id: "r.1",
		event: &adminapi.AlertEvent{Deliveries: waiting([]string{"a", "b"}, time.Now())}}, 0, 1)
	require.NoError(t, err)
	require.Equal(t, 1, told)
	all, err := s.history(t.Context())
	require.NoError(t, err)
	require.Equal(t, adminapi.DeliveryWaiting, all[0].Deliveries[0].State)
	require.Equal(t, adminapi.DeliveryGivenUp, all[0].Deliveries[1].State)
}

func TestTheHistoryIsBounded(t *testing.T) {
	w, _ := newWorld(t)
	s, free := store{w.etcd}, clientv3.Compare(clientv3.Version(configstore.AlertsLeader), "=", 0)
	for range maxEvents + 3 {
		_, err := s.apply(t.Context(), free, change{id: "r.1", event: &adminapi.AlertEvent{
			Deliveries: waiting([]string{"a"}, time.Now())}}, 0, 0)
		require.NoError(t, err)
	}
	require.NoError(t, s.prune(t.Context()))
	for _, prefix := range []string{events, results} {
		r, err := w.etcd.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		require.EqualValues(t, maxEvents, r.Count, prefix)
	}
}

func TestATestSaysWhatTheReceiverDid(t *testing.T) {
	w, server := newWorld(t)
	s := w.service()
	require.True(t, s.Test(t.Context(), hook("ops", server.URL)).OK)
	require.Equal(t, []string{adminapi.AlertTested}, w.types())
	w.set(func() { w.answer = func(_ int, rw http.ResponseWriter) { rw.WriteHeader(http.StatusForbidden) } })
	require.Equal(t, adminapi.AlertTest{Message: "The test message was not delivered: it answered with status 403."},
		s.Test(t.Context(), hook("ops", server.URL)))

	s.options.Networks = nil
	guarded, err := New(s.options)
	require.NoError(t, err)
	got := guarded.Test(t.Context(), hook("ops", server.URL))
	require.Contains(t, got.Message, "its address is not allowed")
	mail := &configv1.AlertReceiver{Name: "m", Email: &configv1.AlertEmail{Host: "127.0.0.1", Port: 2525,
		From: "a@example.com", To: []string{"b@example.com"}}}
	require.Contains(t, guarded.Test(t.Context(), mail).Message, "its address is not allowed")
}

func TestSlackGetsTextWithoutMarkup(t *testing.T) {
	body := slackBody(adminapi.AlertEvent{Type: adminapi.AlertFired, Rule: "r", Subject: "<!channel>",
		Message: "a & <https://example.com|b>"})
	require.JSONEq(t,
		`{"text":"[Modelgate] Firing: r: &lt;!channel&gt;\na &amp; &lt;https://example.com|b&gt;"}`, string(body))
}
