package proc

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestWhatIsAskedOfEtcdIsMeasured(t *testing.T) {
	server := etcdtest.New(t)
	calls := NewEtcdCalls()
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(calls))
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{calls.Option()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	asked := func() map[string]uint64 {
		families, err := r.Gather()
		require.NoError(t, err)
		codes := map[string]uint64{}
		for _, f := range families {
			require.Equal(t, "modelgate_etcd_request_duration_seconds", f.GetName())
			for _, m := range f.GetMetric() {
				codes[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
		return codes
	}
	_, err = client.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"OK": 1}, asked())

	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = client.Get(ctx, "key")
	require.Error(t, err)
	require.EqualValues(t, 1, asked()["OK"])
	require.Greater(t, len(asked()), 1, "failures have their codes")
}
