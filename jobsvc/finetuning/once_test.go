package finetuning_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestWhatAClientGaveIsWrittenOnceHoweverOftenAJobChanges(t *testing.T) {
	w := newWorld(t)
	var reports []provider.TuningReport
	for i := range int64(40) {
		reports = append(reports, provider.TuningReport{Status: "running", EstimatedFinish: number(1700000000 + i)})
	}
	w.trainer.says(append(reports, success()[3])...)
	label, source := strings.Repeat("v", 500), strings.Repeat("s", 2000)
	id := w.create(`,"metadata":{"label":"` + label +
		`"},"method":{"type":"reinforcement","reinforcement":{"grader":{"type":"python","source":"` + source + `"}}}`)
	w.run()
	w.await(id, over)
	require.Contains(t, string(w.trainer.jobs["remote-job-1"].Method.Grader), source, "the provider has it")
	require.Equal(t, map[string]string{"label": label}, w.get(id).Metadata)
	_, body := w.ask(acme, "GET", "/v1/fine_tuning/jobs/"+id, "")
	require.Contains(t, body, source)

	folder := store.Root + "finetuning/"
	now, err := w.etcd.Get(t.Context(), folder, clientv3.WithPrefix())
	require.NoError(t, err)
	require.Less(t, len(now.Kvs[0].Value), 1200)
	var writes, labels, sources int
	for r := range w.etcd.Watch(t.Context(), store.Root, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		for _, e := range r.Events {
			if strings.HasPrefix(string(e.Kv.Key), folder) {
				writes++
			}
			labels += strings.Count(string(e.Kv.Value), label)
			sources += strings.Count(string(e.Kv.Value), source)
		}
		if r.Events[len(r.Events)-1].Kv.ModRevision >= now.Kvs[0].ModRevision {
			break
		}
	}
	require.Greater(t, writes, 40)
	require.Equal(t, 1, labels, "at the creation")
	require.Equal(t, 1, sources, "at the creation")
}
