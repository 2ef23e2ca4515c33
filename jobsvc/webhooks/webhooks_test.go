package webhooks

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/webhook"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	batchID = "batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7M"
	wait    = 10 * time.Second
)

var acme = store.Tenant{Organization: "acme", Project: "web"}

func hookAt(url string) *configv1.Webhook {
	return &configv1.Webhook{Name: "hook", Organization: "acme", Project: "web", Url: url,
		Secret: &configv1.Credential{Source: &configv1.Credential_Value{Value: secret}}}
}

// serviceFor returns a service without etcd that reaches a receiver.
func serviceFor(t *testing.T, target *httptest.Server) *Service {
	t.Helper()
	s, err := New(Options{Now: time.Now, Log: zap.NewNop(), Registerer: prometheus.NewRegistry()})
	require.NoError(t, err)
	s.client, err = webhook.New([]netip.Prefix{loopback}, trusting(target))
	require.NoError(t, err)
	return s
}

// loopback is the network of the receivers in these tests.
var loopback = netip.MustParsePrefix("127.0.0.1/32")

// trusting has a client know the certificate of a receiver.
func trusting(target *httptest.Server) func(*net.Dialer, *http.Transport) {
	return func(_ *net.Dialer, t *http.Transport) {
		if target.Certificate() != nil {
			t.TLSClientConfig.RootCAs = x509.NewCertPool()
			t.TLSClientConfig.RootCAs.AddCert(target.Certificate())
		}
	}
}

// A receiver takes events, and answers as it is told.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	got     []*http.Request
	bodies  []string
	arrived chan struct{}
	answer  func(n int, w http.ResponseWriter)
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{arrived: make(chan struct{}, 100), answer: func(int, http.ResponseWriter) {}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got, r.bodies = append(r.got, q), append(r.bodies, string(body))
		n := len(r.got)
		r.mu.Unlock()
		r.arrived <- struct{}{}
		r.answer(n, w)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) await(t *testing.T) {
	t.Helper()
	select {
	case <-r.arrived:
	case <-time.After(wait):
		t.Fatal("no event arrived")
	}
}

// A system is services over one etcd.
type system struct {
	t      *testing.T
	etcd   *clientv3.Client
	target *receiver
	mu     sync.Mutex // guards what follows
	config *config.Config
}

func newSystem(t *testing.T, hooks ...*configv1.Webhook) *system {
	s := &system{t: t, etcd: etcdtest.Start(t), target: newReceiver(t)}
	s.configure(hooks...)
	return s
}

func (s *system) configure(hooks ...*configv1.Webhook) {
	for _, h := range hooks {
		if h.GetUrl() == "" {
			h.Url = s.target.URL + "/hook?token=confidential"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = &config.Config{Webhooks: hooks}
}

func (s *system) current() *config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

func (s *system) service(node string, log *zap.Logger) *Service {
	s.t.Helper()
	service, err := New(Options{
		Store: store.New(s.etcd), Queue: queue.New(queue.Options{Etcd: s.etcd, Node: node, TTL: 2 * time.Second, Log: log}),
		Config: s.current, Now: time.Now, Log: log, Registerer: prometheus.NewRegistry(),
	})
	require.NoError(s.t, err)
	service.client, err = webhook.New([]netip.Prefix{loopback}, trusting(s.target.Server))
	require.NoError(s.t, err)
	return service
}

// run runs a service until the test ends.
func (s *system) run(service *Service) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); service.Run(ctx) }()
	s.t.Cleanup(func() { stop(); <-done })
}

func (s *system) announce(service *Service, typ string) {
	s.t.Helper()
	t := service.Store.Begin()
	service.Announce(t, acme, typ, batchID, time.Unix(1_800_000_000, 0))
	require.NoError(s.t, t.Commit(s.t.Context()))
}

// items returns what is in the queue.
func (s *system) items() []string {
	s.t.Helper()
	r, err := s.etcd.Get(s.t.Context(), store.Root+"queue/"+kind+"/", clientv3.WithPrefix())
	require.NoError(s.t, err)
	values := []string{}
	for _, kv := range r.Kvs {
		values = append(values, string(kv.Value))
	}
	return values
}

func (s *system) drained() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return len(s.items()) == 0 }, wait, 10*time.Millisecond)
}

func TestAnEventIsDeliveredOnceAndSigned(t *testing.T) {
	other, foreign, elsewhere := hookAt(""), hookAt(""), hookAt("")
	other.Name, other.Events = "failures", []string{"batch.failed"}
	foreign.Name, foreign.Organization = "foreign", "other"
	elsewhere.Name, elsewhere.Project = "elsewhere", ""
	sys := newSystem(t, other, foreign, elsewhere, hookAt(""))
	core, logs := observer.New(zap.DebugLevel)
	one, two := sys.service("one", zap.New(core)), sys.service("two", zap.New(core))
	sys.announce(one, "batch.completed")
	sys.announce(two, "batch.completed") // again, as after a commit that was not heard
	require.Len(t, sys.items(), 1)
	sys.run(one)
	sys.run(two)
	sys.target.await(t)
	sys.drained()
	sys.target.Close() // which waits for what is under way
	require.Len(t, sys.target.got, 1)

	q, body := sys.target.got[0], sys.target.bodies[0]
	require.Equal(t, http.MethodPost, q.Method)
	require.Equal(t, "/hook?token=confidential", q.URL.String())
	require.Equal(t, "application/json", q.Header.Get("Content-Type"))
	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify([]byte(body), q.Header))
	id := q.Header.Get("Webhook-Id")
	require.Regexp(t, "^evt_[0-9A-Z]{26}$", id)
	require.JSONEq(t, `{"id":"`+id+`","object":"event","created_at":1800000000,"type":"batch.completed","data":{"id":"`+
		batchID+`"}}`, body)
	require.InDelta(t, 1, testutil.ToFloat64(one.deliveries.WithLabelValues(webhook.Delivered))+testutil.ToFloat64(
		two.deliveries.WithLabelValues(webhook.Delivered)), 0)
	for _, entry := range logs.All() {
		for _, f := range append(entry.Context, zap.String("message", entry.Message)) {
			require.NotContains(t, f.String, "confidential")
			require.NotContains(t, f.String, secret[6:])
		}
	}
}

func TestADeliveryWhoseClaimIsLostIsMadeAgainUnderTheSameID(t *testing.T) {
	sys := newSystem(t, hookAt(""))
	release := make(chan struct{})
	sys.target.answer = func(n int, w http.ResponseWriter) {
		if n == 1 {
			<-release
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	one, two := sys.service("one", zap.NewNop()), sys.service("two", zap.NewNop())
	sys.announce(one, "batch.failed")
	sys.run(one)
	sys.target.await(t)
	// Its lease runs out, as that of a replica does that has been killed.
	r, err := sys.etcd.Delete(t.Context(), store.Root+"claims/"+kind+"/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Equal(t, int64(1), r.Deleted)
	sys.run(two)
	sys.target.await(t)
	sys.drained()
	close(release)
	sys.target.Close()
	require.Len(t, sys.target.got, 2)
	require.Equal(t, sys.target.got[0].Header.Get("Webhook-Id"), sys.target.got[1].Header.Get("Webhook-Id"))
	require.Equal(t, sys.target.bodies[0], sys.target.bodies[1])
}

func TestWhatALostClaimLearnsIsNotWrittenDown(t *testing.T) {
	sys := newSystem(t, hookAt(""))
	service := sys.service("one", zap.NewNop())
	d := delivery{Event: event{ID: "evt_1", Type: "batch.failed", Tenant: acme}, Webhook: "hook"}
	lost := &queue.Claim{Item: queue.Item{Kind: kind, ID: d.id()}, Epoch: 7}
	require.ErrorIs(t, service.record(t.Context(), lost, d, webhook.Result{Outcome: webhook.Refused}), store.ErrConflict)
	require.Empty(t, sys.items(), "a delivery that another has made does not come back")
	sys.announce(service, "batch.failed")
	lost.ID = gjson.Get(sys.items()[0], "id").Str
	require.ErrorIs(t, service.record(t.Context(), lost, d, webhook.Result{Outcome: webhook.Delivered}),
		store.ErrConflict)
	require.Len(t, sys.items(), 1, "a delivery that another makes does not go away")
}

func TestAFailedDeliveryWaitsInTheQueueForItsNextAttempt(t *testing.T) {
	sys := newSystem(t, hookAt(""))
	sys.target.answer = func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	service := sys.service("one", zap.NewNop())
	sys.announce(service, "batch.expired")
	sys.run(service)
	sys.target.await(t)
	attempts := func() int64 { return gjson.Get(sys.items()[0], "value.attempts").Int() }
	require.Eventually(t, func() bool { return attempts() == 1 }, wait, 10*time.Millisecond)
	require.InDelta(t, time.Now().Add(time.Hour).Unix(), gjson.Get(sys.items()[0], "not_before").Int(), 60)
	require.Equal(t, "batch.expired", gjson.Get(sys.items()[0], "value.event.type").Str)

	// Another replica goes on where this one was: after the last attempt, it is given up.
	last := delivery{Event: event{ID: eventID("batch.expired", batchID), Type: "batch.expired", Object: batchID,
		Tenant: acme}, Webhook: "hook", Attempts: len(pauses())}
	txn := service.Store.Begin()
	service.put(txn, last)
	require.NoError(t, txn.Commit(t.Context()))
	sys.target.await(t)
	sys.drained()
}

func TestGoneEndsADelivery(t *testing.T) {
	sys := newSystem(t, hookAt(""))
	sys.target.answer = func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusGone) }
	service := sys.service("one", zap.NewNop())
	sys.announce(service, "batch.cancelled")
	sys.run(service)
	sys.target.await(t)
	sys.drained()
	require.InDelta(t, 1, testutil.ToFloat64(service.deliveries.WithLabelValues(webhook.Gone)), 0)
}

func TestAWebhookThatIsNotTheTenantsAnyMoreIsNotTold(t *testing.T) {
	sys := newSystem(t, hookAt(""))
	service := sys.service("one", zap.NewNop())
	sys.announce(service, "batch.completed")
	sys.announce(service, "batch.failed")
	moved := hookAt("")
	moved.Organization = "other"
	sys.configure(moved)
	sys.run(service)
	sys.drained()
	require.Empty(t, sys.target.got)
	require.InDelta(t, 2, testutil.ToFloat64(service.deliveries.WithLabelValues(dropped)), 0)
}

func TestAnEventFromBeforeTheConfigurationIsKnownIsDelivered(t *testing.T) {
	sys := newSystem(t)
	sys.mu.Lock()
	sys.config = nil
	sys.mu.Unlock()
	service := sys.service("one", zap.NewNop())
	sys.announce(service, "fine_tuning.job.succeeded")
	sys.run(service)
	second := hookAt("")
	second.Name = "second"
	sys.configure(hookAt(""), second)
	sys.target.await(t)
	sys.target.await(t)
	sys.drained()
	require.Equal(t, sys.target.got[0].Header.Get("Webhook-Id"), sys.target.got[1].Header.Get("Webhook-Id"))
}

func TestNothingIsSentThatIsNotSigned(t *testing.T) {
	target := newReceiver(t)
	for _, bad := range []string{"", "whsec_", "whsec_AAAA", "sk-secret", "whsec_!" + strings.Repeat("A", 40)} {
		hook := hookAt(target.URL)
		hook.Secret = &configv1.Credential{Source: &configv1.Credential_Value{Value: bad}}
		got := serviceFor(t, target.Server).attempt(t.Context(), hook, event{ID: "evt_1"})
		require.Equal(t, webhook.Unsigned, got.Outcome)
	}
	require.Empty(t, target.got)
}

func TestEventsOfAnObjectHaveIDsOfTheirOwn(t *testing.T) {
	require.Equal(t, eventID("batch.completed", batchID), eventID("batch.completed", batchID))
	require.NotEqual(t, eventID("batch.completed", batchID), eventID("batch.failed", batchID))
	require.NotEqual(t, eventID("batch.completed", batchID),
		eventID("batch.completed", "batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7N"))
	require.Equal(t, "evt_01JD3T9Q8H", eventID("batch.completed", batchID)[:14], "it sorts by when the object was made")
	require.Len(t, eventID("x", "odd"), len("evt_")+26)
}

func TestAttemptsAreMadeForThreeDays(t *testing.T) {
	whole := time.Duration(0)
	for failed := 1; failed <= 9; failed++ {
		pause, again := retryAfter(webhook.Result{Outcome: webhook.Refused}, failed)
		require.True(t, again)
		least := pauses()[failed-1]
		require.GreaterOrEqual(t, pause, least)
		require.Less(t, pause, least+least/5)
		whole += least
	}
	require.InDelta(t, 75.6, whole.Hours(), 0.1)
	_, again := retryAfter(webhook.Result{Outcome: webhook.Refused}, 10)
	require.False(t, again)
	_, again = retryAfter(webhook.Result{Outcome: webhook.Gone, Status: http.StatusGone}, 1)
	require.False(t, again)
	pause, _ := retryAfter(webhook.Result{Outcome: webhook.Refused, After: time.Hour}, 1)
	require.Equal(t, time.Hour, pause)
	pause, _ = retryAfter(webhook.Result{Outcome: webhook.Refused, After: 1000 * time.Hour}, 1)
	require.Equal(t, maxAfter, pause)
	pause, _ = retryAfter(webhook.Result{Outcome: webhook.Refused, After: time.Second}, 2)
	require.GreaterOrEqual(t, pause, 5*time.Minute)
}
