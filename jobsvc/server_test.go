package jobsvc_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"gocloud.dev/blob"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/gateway"
)

const eventually, often = 15 * time.Second, 2 * time.Millisecond

func newServer(t *testing.T, etcd *clientv3.Client, bucket *blob.Bucket) *jobsvc.Server {
	t.Helper()
	out, err := gateway.New("unix:///nowhere", nil, 1)
	require.NoError(t, err)
	xds, err := grpc.NewClient("unix:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, xds.Close()) })
	s, err := jobsvc.New(jobsvc.Options{
		Etcd: etcd, Bucket: bucket, Gateway: out, XDS: xds, Validate: func(configv1.Object) error { return nil },
		Node: "node", Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	return s
}

// TestABlobStoreHasOneGateway: one with another etcd knows none of the other's records, and would in time remove all
// blobs.
func TestABlobStoreHasOneGateway(t *testing.T) {
	bucket, err := blobstore.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	etcd := etcdtest.Start(t)
	for range 2 { // its own replicas share it
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		s := newServer(t, etcd, bucket)
		go func() { ended <- s.Run(ctx) }()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			there, err := bucket.Exists(ctx, "owner")
			require.NoError(c, err)
			require.True(c, there)
		}, eventually, often)
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	require.ErrorIs(t, newServer(t, etcdtest.Start(t), bucket).Run(t.Context()), files.ErrOwner)
}
