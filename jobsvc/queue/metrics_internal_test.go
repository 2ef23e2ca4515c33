package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestHowLongWorkWaitsIsMeasured(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	at := func(seconds int64) int64 { return now.Unix() + seconds }
	q := New(Options{Log: zap.NewNop(), Registerer: prometheus.NewRegistry()})
	d := &dispatcher{queue: q, kind: "batch", running: map[string]bool{"mine": true}, items: map[string]*entry{
		"mine":   {since: now.Add(-time.Hour)},
		"theirs": {since: now.Add(-time.Hour), taken: true},
		"later":  {since: now.Add(-time.Hour), item: Item{NotBefore: at(60)}},
		"due":    {since: now.Add(-time.Hour), item: Item{NotBefore: at(-90)}},
		"new":    {since: now.Add(-30 * time.Second)},
	}}
	d.updateMetrics(now)
	items := func(state string) float64 { return testutil.ToFloat64(q.metrics.items.WithLabelValues("batch", state)) }
	wait := func() float64 { return testutil.ToFloat64(q.metrics.wait.WithLabelValues("batch")) }
	require.EqualValues(t, 2, items("running"))
	require.EqualValues(t, 2, items("waiting"))
	require.EqualValues(t, 1, items("later"))
	require.EqualValues(t, 90, wait())

	clear(d.items)
	d.updateMetrics(now.Add(metricsInterval - 1))
	require.EqualValues(t, 90, wait(), "not at every event")
	d.updateMetrics(now.Add(metricsInterval))
	require.Zero(t, wait())
	require.Zero(t, items("running")+items("waiting")+items("later"))
}

func TestFailuresOfWorkAreCounted(t *testing.T) {
	etcd := etcdtest.New(t).Client(t)
	q := New(Options{Etcd: etcd, Node: "node", Log: zap.NewNop(), Registerer: prometheus.NewRegistry()})
	_, err := etcd.Do(t.Context(), Put(Item{Kind: "batch", ID: "one"}))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	tries := 0
	q.Work(ctx, "batch", 1, func(context.Context, *Claim) error {
		if tries++; tries == 3 {
			stop()
		}
		return errors.New("it fails")
	})
	// Of the third, the replica that has stopped may not hear any more.
	require.Contains(t, []float64{2, 3}, testutil.ToFloat64(q.metrics.failures.WithLabelValues("batch")))
}
