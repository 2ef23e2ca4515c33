package controlplane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
)

func TestAChangeIsAwaitedAtEveryControlPlane(t *testing.T) {
	t.Parallel()
	p := startPlane(t)
	other := p.another()
	lacking := func(revision int64, d time.Duration) []string {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return p.Await(ctx, revision)
	}
	at := p.put(&configv1.Key{Name: "key_1", Hash: make([]byte, 32)})
	require.Empty(t, lacking(at, 20*time.Second), "nobody is connected")

	near, far := subscribe[*configv1.Key](p, envoy.RoleExtProc), subscribe[*configv1.Key](other, envoy.RoleExtProc)
	for _, s := range []*subscriber[*configv1.Key]{near, far} {
		s.await(func() bool { return len(s.has) == 1 })
	}
	at = p.put(&configv1.Key{Name: "key_2", Hash: append(make([]byte, 31), 1)})
	require.Equal(t, []string{"extproc test", "what is connected to 1 other control planes"}, lacking(at, time.Second))
	near.await(func() bool { return len(near.has) == 2 })
	require.Equal(t, []string{"what is connected to 1 other control planes"}, lacking(at, time.Second))
	far.await(func() bool { return len(far.has) == 2 })
	require.Empty(t, lacking(at, 20*time.Second))
	require.Equal(t, []string{"the control plane, which has not published it yet", "extproc test",
		"what is connected to 1 other control planes"}, lacking(at+1000, time.Second))

	// What a control plane has told that is dead is there for some time. Nobody waits for it once its clients are
	// elsewhere.
	_, err := p.client.Put(t.Context(), configstore.Replicas+"dead", `[{"node":"test","role":"extproc"}]`)
	require.NoError(t, err)
	require.Equal(t, []string{"what is connected to 1 other control planes"}, lacking(at, time.Second))
	require.Empty(t, lacking(at, 20*time.Second))

	p.etcd.Stop()
	require.Equal(t, []string{"other control planes, of which etcd tells nothing"}, lacking(at, 100*time.Millisecond))
}

// A countedKV counts transactions.
type countedKV struct {
	clientv3.KV
	txns int
}

// Txn counts one.
func (c *countedKV) Txn(ctx context.Context) clientv3.Txn {
	c.txns++
	return c.KV.Txn(ctx)
}

func TestWhoWaitsForAReplicaThatHangsAsksEtcdSeldom(t *testing.T) {
	t.Parallel()
	p := startPlane(t)
	_, err := p.client.Put(t.Context(), configstore.Replicas+"hangs", `[{"node":"far","role":"extproc"}]`)
	require.NoError(t, err)
	kv, client := &countedKV{KV: p.client.KV}, clientv3.NewCtxClient(t.Context())
	client.KV = kv
	s := &Server{config: Config{Etcd: client, Logger: zap.NewNop()}, publisher: p.publisher, replica: p.Server.replica}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.NotEmpty(t, s.awaitReplicas(ctx, 1))
	require.Positive(t, kv.txns)
	require.Less(t, kv.txns, 10)
}
