package jobsvc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestInspectorSeesTheJobsOfAllTenantsNewestFirst(t *testing.T) {
	etcd := etcdtest.Start(t)
	st := store.New(etcd)
	tenants := []store.Tenant{{}, {Organization: "a"}, {Organization: "a", Project: "p"}, {Organization: "a b/c"}}
	ids := map[string]bool{}
	for i := range 20 {
		r := &store.Record[batches.Batch]{Tenant: tenants[i%len(tenants)], ID: batches.Kind.NewID(), Value: batches.Batch{
			Key: fmt.Sprintf("key_%d", i%2), Status: job.BatchCompleted, Counts: batches.Counts{Total: 3, Completed: 2},
		}}
		tx := st.Begin()
		batches.Kind.Create(tx, r)
		require.NoError(t, tx.Commit(t.Context()))
		ids[r.ID] = true
	}
	inspector := jobsvc.NewInspector(etcd, nil)
	all := func(o adminapi.ListOptions) (found []string) {
		for {
			page, err := inspector.Batches(t.Context(), o)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Items), o.Limit)
			for _, item := range page.Items {
				var b struct {
					ID     string `json:"id"`
					Object string `json:"object"`
					Counts struct {
						Completed int `json:"completed"`
					} `json:"request_counts"`
				}
				require.NoError(t, json.Unmarshal(item.Object, &b))
				require.Equal(t, "batch", b.Object)
				require.Equal(t, 2, b.Counts.Completed)
				found = append(found, b.ID)
			}
			if o.After = page.Next; o.After == "" {
				return found
			}
		}
	}
	for _, limit := range []int{1, 3, 20, 100} {
		found := all(adminapi.ListOptions{Limit: limit})
		require.Len(t, found, 20)
		seen := map[string]bool{}
		for i, id := range found {
			require.True(t, ids[id] && !seen[id], "each once")
			seen[id] = true
			require.True(t, i == 0 || found[i-1] > id, "newest first")
		}
	}
	require.Len(t, all(adminapi.ListOptions{Limit: 2, Filters: map[string]string{"organization": "a"}}), 10)
	require.Len(t, all(adminapi.ListOptions{Limit: 2, Filters: map[string]string{"organization": "a", "project": "p"}}),
		5)
	require.Len(t, all(adminapi.ListOptions{Limit: 2, Filters: map[string]string{"key": "key_1"}}), 10)
	require.Empty(t, all(adminapi.ListOptions{Limit: 2, Filters: map[string]string{"status": "failed"}}))
	_, err := inspector.Batches(t.Context(), adminapi.ListOptions{Limit: 2, After: "../x"})
	requireStatus(t, err, 400)
}

func requireStatus(t *testing.T, err error, status int) {
	t.Helper()
	e, ok := errors.AsType[*openai.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, status, e.Status)
}

func TestInspectorFindsAFineTuningJobAndItsEvents(t *testing.T) {
	etcd := etcdtest.Start(t)
	st := store.New(etcd)
	inspector := jobsvc.NewInspector(etcd, nil)
	none, err := inspector.FineTuningJobs(t.Context(), adminapi.ListOptions{Limit: 5})
	require.NoError(t, err)
	require.Empty(t, none.Items)
	require.NotNil(t, none.Items)

	tenant := store.Tenant{Organization: "org", Project: "p"}
	r := &store.Record[finetuning.Job]{Tenant: tenant, ID: finetuning.Kind.NewID(),
		Value: finetuning.Job{Model: "m", Key: "key_1", Status: job.TuningRunning}}
	tx := st.Begin()
	finetuning.Kind.Create(tx, r)
	for i := range 3 {
		events := store.Kind[finetuning.Event]{Name: "ftevents", Prefix: "ftevent-"}.Under(r.ID)
		events.Create(tx, &store.Record[finetuning.Event]{Tenant: tenant, ID: events.NewID(), Value: finetuning.Event{
			Type: "metrics", Message: fmt.Sprint(i), Data: json.RawMessage(`{"step":1,"train_loss":0.5}`),
		}})
	}
	require.NoError(t, tx.Commit(t.Context()))

	found, err := inspector.FineTuningJob(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"org", "p", "key_1"}, []string{found.Organization, found.Project, found.Key})
	require.Contains(t, string(found.Object), `"status":"running"`)
	page, err := inspector.FineTuningEvents(t.Context(), r.ID, adminapi.ListOptions{Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.Contains(t, string(page.Items[0]), `"train_loss":0.5`)
	rest, err := inspector.FineTuningEvents(t.Context(), r.ID, adminapi.ListOptions{Limit: 2, After: page.Next})
	require.NoError(t, err)
	require.Len(t, rest.Items, 1)
	require.Empty(t, rest.Next)

	for _, id := range []string{"ftjob-none", "", "batch_x", "../../x"} {
		_, err = inspector.FineTuningJob(t.Context(), id)
		requireStatus(t, err, 404)
		_, err = inspector.FineTuningEvents(t.Context(), id, adminapi.ListOptions{Limit: 2})
		requireStatus(t, err, 404)
	}
}
