package quota_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/quota"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A world is a gate over a configuration, and a clock.
type world struct {
	objects *configstore.Store
	now     time.Time
	gate    *quota.Gate
	bounds  store.Bounds // of the last call
	answer  error
}

func newWorld(t *testing.T) *world {
	w := &world{objects: configstore.New(etcdtest.Start(t), func(configv1.Object) error { return nil }, zap.NewNop()),
		now: time.Unix(1_800_000_000, 0)}
	w.gate = quota.New(quota.Options{Objects: w.objects, Now: func() time.Time { return w.now }})
	return w
}

func (w *world) put(t *testing.T, o configv1.Object) {
	t.Helper()
	there, _ := w.objects.Get(t.Context(), configv1.KindOf(o), o.GetName())
	_, err := w.objects.Put(t.Context(), o, there.Revision)
	require.NoError(t, err)
}

func (w *world) ask(f func(rest.HandlerFunc) rest.HandlerFunc, c rest.Caller) error {
	handler := f(func(_ http.ResponseWriter, _ *http.Request, c rest.Caller) error {
		w.bounds = c.Bounds
		return w.answer
	})
	return handler(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), c)
}

func refused(t *testing.T, err error, contains string) *openai.Error {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, http.StatusTooManyRequests, e.Status)
	require.Contains(t, e.Message, contains)
	return e
}

var web = rest.Caller{Key: "key_1", Tenant: store.Tenant{Organization: "acme", Project: "web"}}

func TestQuotasAreThoseOfTheConfigurationAsItIsNow(t *testing.T) {
	w := newWorld(t)
	org, project := store.Account{Organization: "acme"}, store.Account{Organization: "acme", Project: "web"}
	require.NoError(t, w.ask(w.gate.Create, web), "no object is needed")
	require.EqualValues(t, 1000, w.bounds[project][store.OpenBatches])
	require.EqualValues(t, 4000, w.bounds[org][store.OpenBatches])
	w.put(t, &configv1.Project{Name: "acme/web", Quotas: &configv1.Quotas{OpenBatches: 7}})
	w.now = w.now.Add(3 * time.Second)
	require.NoError(t, w.ask(w.gate.Create, web))
	require.EqualValues(t, 7, w.bounds[project][store.OpenBatches])
	require.EqualValues(t, 100_000, w.bounds[project][store.KeptBatches])

	require.NoError(t, w.ask(w.gate.Create, rest.Caller{Key: "key_2"}))
	require.Len(t, w.bounds, 1)
	require.EqualValues(t, 1000, w.bounds[store.Account{Key: "key_2"}][store.OpenBatches])
}

func TestTheRateOfAnOrganizationHoldsForItsProjectsTogether(t *testing.T) {
	w := newWorld(t)
	w.put(t, &configv1.Organization{Name: "acme", Quotas: &configv1.Quotas{WritesPerMinute: 6}})
	app := web
	app.Tenant.Project = "app"
	require.NoError(t, w.ask(w.gate.Create, web))
	require.NoError(t, w.ask(w.gate.Change, app))
	e := refused(t, w.ask(w.gate.Change, web), "'writes_per_minute' of the organization 'acme'")
	require.Equal(t, "rate_limit_exceeded", string(e.Code))
	require.Equal(t, 10*time.Second, e.RetryAfter)
	require.False(t, e.NoRetry)
	require.NoError(t, w.ask(w.gate.Create, rest.Caller{Key: "key_2"}), "others have their own")
	w.now = w.now.Add(10 * time.Second)
	require.NoError(t, w.ask(w.gate.Create, web), "what was refused took nothing")
}

func TestWhatIsRemovedHasNoBounds(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.ask(w.gate.Change, web))
	require.Nil(t, w.bounds)
}

func TestAQuotaThatIsUsedUpIsNamed(t *testing.T) {
	w := newWorld(t)
	for _, q := range store.AllQuotas() {
		w.answer = &store.QuotaError{Account: store.Account{Organization: "acme"}, Quota: q, Used: 12, Limit: 13}
		e := refused(t, w.ask(w.gate.Create, web), "The quota '"+q.String()+
			"' of the organization 'acme' is used up: 12 of 13 are in use")
		require.True(t, e.NoRetry)
		require.Equal(t, "insufficient_quota", string(e.Code))
		require.Contains(t, e.Message, "quotas."+q.String())
		require.NotZero(t, configv1.QuotasOf(&configv1.Project{}).Get(q.String()), "the configuration has it by this name")
	}
}

type parcel struct{ Ended int64 }

func TestWhatIsKeptSaysWhenThereIsRoomAgain(t *testing.T) {
	w := newWorld(t)
	etcd := etcdtest.Start(t)
	bucket, err := blobstore.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() }) // a folder
	parcels := store.Kind[parcel]{Name: "parcels", Prefix: "parcel_", Ended: func(p *parcel) int64 { return p.Ended }}
	st := store.New(etcd).Archived(bucket)
	past, err := archive.New(archive.Options{
		Store: st, Queue: queue.New(queue.Options{Etcd: etcd, Node: "test", Log: zap.NewNop()}), Log: zap.NewNop(),
		Registerer: prometheus.NewRegistry(),
		Kinds:      []archive.Kind{{Name: "parcels", Queue: "parcel", Quota: store.KeptBatches, Objects: parcels}},
		Now:        func() time.Time { return w.now },
	})
	require.NoError(t, err)
	w.gate = quota.New(quota.Options{Objects: w.objects, Now: func() time.Time { return w.now }, Leaves: past.Leaves})
	says := func(a store.Account, contains string) string {
		t.Helper()
		w.answer = &store.QuotaError{Account: a, Quota: store.KeptBatches, Used: 13, Limit: 13}
		return refused(t, w.ask(w.gate.Create, web), contains).Message
	}
	org := store.Account{Organization: "acme"}
	require.NotContains(t,
		says(org, "Each stops counting 2160h0m0s after its end, and cannot be deleted before. Or ask your operator"), "due")
	says(store.Account{Key: "key_2"}, "Each stops counting 24h0m0s after its end")

	ended := w.now.Add(-30 * 24 * time.Hour)
	for i, tenant := range []store.Tenant{{Organization: "acme", Project: "app"}, {Organization: "acme", Project: "web"},
		{Organization: "other"}} {
		txn := st.Begin()
		parcels.Create(txn, &store.Record[parcel]{Tenant: tenant, ID: parcels.NewID(),
			Value: parcel{ended.Add(-time.Duration(i) * time.Hour).Unix()}})
		require.NoError(t, txn.Commit(t.Context()))
	}
	require.NoError(t, past.Pass(t.Context()))
	w.now = w.now.Add(2 * time.Minute) // what was told before is read again
	due := func(hours int) string {
		return "The next are due at " + ended.Add(90*24*time.Hour-time.Duration(hours)*time.Hour).UTC().Format(time.RFC3339)
	}
	says(org, due(1))
	says(store.Account{Organization: "acme", Project: "app"}, due(0))
	w.now = w.now.Add(61 * 24 * time.Hour)
	says(org, "The next are due now.")
	require.NoError(t, past.Pass(t.Context()))
	w.now = w.now.Add(2 * time.Minute)
	require.NotContains(t, says(org, "Each stops counting"), "due")
}
