package batches_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// archiver returns what archives, of one replica, whose clock is ahead.
func (w *world) archiver(ahead time.Duration) (*archive.Service, *prometheus.Registry) {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	s, err := archive.New(archive.Options{
		Store: store.New(w.etcd).Archived(w.bucket),
		Queue: queue.New(queue.Options{Etcd: w.etcd, Node: "test", TTL: 2 * time.Second, Log: zap.NewNop()}),
		Kinds: []archive.Kind{batches.Archived()}, Limits: archive.Limits{Every: 10 * time.Millisecond},
		Now: func() time.Time { return time.Now().Add(ahead) }, Log: zap.NewNop(), Registerer: registry,
	})
	require.NoError(w.t, err)
	return s, registry
}

func (w *world) records() int64 {
	w.t.Helper()
	r, err := w.etcd.Get(w.t.Context(), store.Root+"batches/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(w.t, err)
	return r.Count
}

// seen returns everything that a client sees of the tenant's batches.
func (w *world) seen(ids []string) (all []string) {
	w.t.Helper()
	for _, path := range []string{"", "?limit=3", "?limit=100", "?limit=4&after=" + ids[2], "?limit=1&after=" +
		ids[len(ids)-1]} {
		all = append(all, w.call("GET", "/v1/batches"+path, "").Body.String())
	}
	for _, id := range ids {
		all = append(all, w.call("GET", "/v1/batches/"+id, "").Body.String(), w.call("POST", "/v1/batches/"+id+"/cancel",
			"").Body.String(),
			w.callAs(store.Tenant{Organization: "other"}, "GET", "/v1/batches/"+id, "").Body.String())
	}
	page, err := jobsvc.NewInspector(w.etcd, w.bucket).Batches(w.t.Context(), adminapi.ListOptions{Limit: 5})
	require.NoError(w.t, err)
	text, err := json.Marshal(page)
	require.NoError(w.t, err)
	return append(all, string(text))
}

func TestClientsCannotTellThatABatchIsArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	again := []string{"Idempotency-Key", "k"}
	body := fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h","metadata":{"a":"<b>"}}`,
		w.input(requests(2)), chat)
	first := w.call("POST", "/v1/batches", body, again...)
	require.Equal(t, http.StatusOK, first.Code, first.Body.String())
	ids = append(ids, wireOf(first).Get("id").String())
	for i := range 8 {
		ids = append(ids, w.createWith(fmt.Sprintf(`{"n":"%d"}`, i), requests(i%3)))
	}
	stop := w.run(nil)
	for _, id := range ids {
		w.over(id)
	}
	stop()
	before := w.seen(ids)

	early, _ := w.archiver(23 * time.Hour)
	require.NoError(t, early.Pass(t.Context()))
	require.EqualValues(t, len(ids), w.records(), "nothing is over for long")

	// One that is in the queue, because its segments are to be removed, stays.
	put := w.store.Begin()
	put.Do(queue.Put(queue.Item{Kind: "batch", ID: ids[4]}))
	require.NoError(t, put.Commit(t.Context()))
	late, registry := w.archiver(25 * time.Hour)
	require.NoError(t, late.Pass(t.Context()))
	require.EqualValues(t, 1, w.records())
	require.Equal(t, before, w.seen(ids))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP modelgate_jobs_records Records of jobs, by kind and by where they are (etcd or archive), as the replica that archives has last seen them.
# TYPE modelgate_jobs_records gauge
modelgate_jobs_records{kind="batches",place="archive"} 8
modelgate_jobs_records{kind="batches",place="etcd"} 1
`), "modelgate_jobs_records"))

	fresh := w.createWith(`{"n":"fresh"}`, requests(1))
	require.Equal(t, fresh, wireOf(w.call("GET", "/v1/batches?limit=1", "")).Get("data.0.id").String())
	repeated := w.call("POST", "/v1/batches", body, again...)
	require.Equal(t, "true", repeated.Header().Get("Idempotency-Replayed"))
	require.Equal(t, first.Body.String(), repeated.Body.String())

	old, _ := w.archiver(92 * 24 * time.Hour)
	require.NoError(t, old.Pass(t.Context()))
	require.Equal(t, http.StatusNotFound, w.call("GET", "/v1/batches/"+ids[0], "").Code, "what is old is removed")
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/batches/"+fresh, "").Code)
}

func TestTwoReplicasArchiveOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for i := range 6 {
		ids = append(ids, w.create(requests(i%2)))
	}
	stop := w.run(nil)
	for _, id := range ids {
		w.over(id)
	}
	stop()
	before := w.seen(ids)
	for range 2 {
		s, _ := w.archiver(25 * time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	w.eventually(func() bool { return w.records() == 0 })
	require.Equal(t, before, w.seen(ids))
	names, err := filepath.Glob(filepath.Join(w.folder, "archive", "batches", "*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

func TestAnArchiveThatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create("")
	stop := w.run(nil)
	w.over(id)
	stop()
	s, _ := w.archiver(25 * time.Hour)
	require.NoError(t, s.Pass(t.Context()))
	folder := filepath.Join(w.folder, "archive")
	breaks, restore := w.breakFolder("archive")
	breaks()
	answer := w.call("GET", "/v1/batches/"+id, "")
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Equal(t, "gateway_unavailable", wireOf(answer).Get("error.code").String())
	require.NotEmpty(t, answer.Header().Get("Retry-After"))
	open := w.create("") // what is open does not suffer
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/batches/"+open, "").Code)
	restore()
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/batches/"+id, "").Code)

	names, err := filepath.Glob(filepath.Join(folder, "batches", "*"))
	require.NoError(t, err)
	require.NoError(t, os.Truncate(names[0], 20))
	answer = w.call("GET", "/v1/batches/"+id, "")
	require.Equal(t, http.StatusInternalServerError, answer.Code)
	require.Contains(t, wireOf(answer).Get("error.message").String(), filepath.Base(names[0]))
	require.Equal(t, "false", answer.Header().Get("X-Should-Retry"))
}
