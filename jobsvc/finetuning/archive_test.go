package finetuning_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/archive"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// archive archives once, with a clock that is ahead.
func (w *world) archive(ahead time.Duration) *prometheus.Registry {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	s, err := archive.New(archive.Options{
		Store: w.store, Queue: queue.New(queue.Options{Etcd: w.etcd, Node: "test", TTL: 2 * time.Second, Log: zap.NewNop()}),
		Kinds: []archive.Kind{finetuning.Archived()},
		Now:   func() time.Time { return time.Now().Add(ahead) }, Log: zap.NewNop(), Registerer: registry,
	})
	require.NoError(w.t, err)
	require.NoError(w.t, s.Pass(w.t.Context()))
	return registry
}

// seen returns everything that clients and operators see of jobs.
func (w *world) seen(ids []string) (all []string) {
	w.t.Helper()
	ask := func(as store.Tenant, method, path string) {
		status, body := w.ask(as, method, "/v1/fine_tuning/jobs"+path, "")
		all = append(all, fmt.Sprint(method, " ", path, ": ", status, " ", body))
	}
	for _, path := range []string{"", "?limit=2", "?limit=1&after=" + ids[1], "?metadata[n]=2", "?metadata=null"} {
		ask(acme, "GET", path)
	}
	operators := jobsvc.NewInspector(w.etcd, w.bucket)
	for _, id := range ids {
		for _, path := range []string{"", "/events", "/events?limit=3", "/checkpoints", "/checkpoints?limit=1"} {
			ask(acme, "GET", "/"+id+path)
			ask(other, "GET", "/"+id+path)
		}
		for _, action := range []string{"/cancel", "/pause", "/resume"} {
			ask(acme, "POST", "/"+id+action)
		}
		object, err := operators.FineTuningJob(w.t.Context(), id)
		require.NoError(w.t, err)
		events, err := operators.FineTuningEvents(w.t.Context(), id, adminapi.ListOptions{Limit: 4})
		require.NoError(w.t, err)
		all = append(all, fmt.Sprintf("%s %s", object.Object, events))
	}
	page, err := operators.FineTuningJobs(w.t.Context(), adminapi.ListOptions{Limit: 3})
	require.NoError(w.t, err)
	text, err := json.Marshal(page)
	require.NoError(w.t, err)
	return append(all, string(text))
}

func TestClientsCannotTellThatAJobIsArchived(t *testing.T) {
	w := newWorld(t)
	w.store = w.store.Counting(append(files.Counted(), finetuning.Kind)...)
	mux := http.NewServeMux()
	service := w.service(w.store, w.objects)
	service.Register(mux)
	w.api = httpapi.Mux(mux)
	w.trainer.says(provider.TuningReport{Status: "succeeded", Model: "tuned-7", ResultFiles: []string{"remote-result-1"},
		Events: []provider.TuningEvent{{ID: "e1", CreatedAt: 1700000000, Level: "warn", Message: "loss is high",
			Data: json.RawMessage(`{"a":1}`)}},
		Checkpoints: []provider.TuningCheckpoint{{ID: "c1", CreatedAt: 1700000001, Model: "tuned-7-1", Step: 10},
			{ID: "c2", CreatedAt: 1700000002, Model: "tuned-7-2", Step: 20}},
	})
	var ids []string
	for i := range 4 {
		ids = append(ids, w.create(fmt.Sprintf(`,"metadata":{"n":"%d"}`, i)))
	}
	stop := run(t, service)
	for _, id := range ids {
		w.await(id, over)
	}
	stop()
	open := w.create("")
	before := w.seen(ids)
	usages := func() store.Amounts {
		all, err := w.store.Usages(t.Context())
		require.NoError(t, err)
		return all[store.Account{Organization: "acme", Project: "shop"}].Counted
	}
	counted := usages()
	require.EqualValues(t, 5, counted[store.KeptFineTuningJobs])

	w.archive(23 * time.Hour)
	require.Equal(t, 5, w.keys(store.Root+"finetuning/"), "nothing is over for long")

	registry := w.archive(25 * time.Hour)
	require.Equal(t, before, w.seen(ids))
	require.Equal(t, 1, w.keys(store.Root+"finetuning/"), "what is open stays")
	require.Equal(t, 2, w.keys(store.Root+"ftevents/"), "with its events")
	require.Zero(t, w.keys(store.Root+"ftcheckpoints/"))
	require.Equal(t, 1, w.keys(store.Root+"archive/"))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP modelgate_jobs_records Records of jobs, by kind and by where they are (etcd or archive), as the replica that archives has last seen them.
# TYPE modelgate_jobs_records gauge
modelgate_jobs_records{kind="finetuning",place="archive"} 4
modelgate_jobs_records{kind="finetuning",place="etcd"} 1
`), "modelgate_jobs_records"))
	require.EqualValues(t, 5, usages()[store.KeptFineTuningJobs], "what is archived is kept")
	require.EqualValues(t, 1, usages()[store.OpenFineTuningJobs])
	require.LessOrEqual(t, usages()[store.RecordBytes], counted[store.RecordBytes]-4*(2<<10), "and takes no room in etcd")
	corrected, err := w.store.Recount(t.Context())
	require.NoError(t, err)
	require.Empty(t, corrected)

	w.archive(92 * 24 * time.Hour)
	for _, path := range []string{"", "/events", "/checkpoints"} {
		status, _ := w.ask(acme, "GET", "/v1/fine_tuning/jobs/"+ids[0]+path, "")
		require.Equal(t, 404, status, "what is old is removed")
		status, _ = w.ask(acme, "GET", "/v1/fine_tuning/jobs/"+open+path, "")
		require.Equal(t, 200, status)
	}
	require.EqualValues(t, 1, usages()[store.KeptFineTuningJobs])
}
