package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// TestWorkGoesOnWhileEtcdChangesItsLeader: an election is over long before a lease is, and what runs must not notice
// it.
func TestWorkGoesOnWhileEtcdChangesItsLeader(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.NewCluster(t, 3)
	etcd := cluster.Client(t)
	q := queue.New(queue.Options{Etcd: etcd, Node: "node", TTL: 10 * time.Second, Log: zap.NewNop()})
	var interrupted, handled atomic.Int64
	began, finish := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	take := func(ctx context.Context, c *queue.Claim) error {
		r, err := etcd.Txn(ctx).If(c.Held()).Then(queue.Remove(c.Kind, c.ID)).Commit()
		if err == nil && r.Succeeded {
			handled.Add(1)
		}
		return err
	}
	go func() {
		defer close(ended)
		q.Work(ctx, kind, 4, func(ctx context.Context, c *queue.Claim) error {
			if c.ID != "long" {
				return take(ctx, c)
			}
			close(began)
			select {
			case <-finish:
			case <-ctx.Done():
				interrupted.Add(1)
			}
			return take(ctx, c)
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	put := func(id string) {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := etcd.Do(t.Context(), queue.Put(queue.Item{Kind: kind, ID: id}))
			require.NoError(c, err)
		}, 20*time.Second, 10*time.Millisecond)
	}
	put("long")
	<-began
	cluster.Stop(cluster.Leader())
	put("short")
	require.Eventually(t, func() bool { return handled.Load() == 1 }, 20*time.Second, 5*time.Millisecond)
	require.Zero(t, interrupted.Load(), "its lease was never lost")
	close(finish)
	require.Eventually(t, func() bool { return handled.Load() == 2 }, 20*time.Second, 5*time.Millisecond)
	r, err := etcd.Get(t.Context(), store.Root, clientv3.WithPrefix())
	require.NoError(t, err)
	require.LessOrEqual(t, len(r.Kvs), 1, "claims are released: %v", r.Kvs)
}

// TestWorkGoesOnWhenAFullEtcdHasRoomAgain: an etcd over its quota takes no writes until an operator has made room.
func TestWorkGoesOnWhenAFullEtcdHasRoomAgain(t *testing.T) {
	cluster := etcdtest.NewCluster(t, 1, func(c *embed.Config) { c.QuotaBackendBytes = 4 << 20 })
	etcd := cluster.Client(t)
	q := queue.New(queue.Options{Etcd: etcd, Node: "node", TTL: 10 * time.Second, Log: zap.NewNop()})
	for i := range 20 {
		_, err := etcd.Do(t.Context(), queue.Put(queue.Item{Kind: kind, ID: fmt.Sprint(i)}))
		require.NoError(t, err)
	}
	for {
		if _, err := etcd.Put(t.Context(), "ballast", strings.Repeat("x", 500<<10)); err != nil {
			require.ErrorIs(t, err, rpctypes.ErrNoSpace)
			break
		}
	}
	st := store.New(etcd).Begin()
	st.Do(clientv3.OpPut("more", "x"))
	require.ErrorIs(t, st.Commit(t.Context()), rpctypes.ErrNoSpace)
	var handled atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Work(ctx, kind, 4, func(ctx context.Context, c *queue.Claim) error {
			handled.Add(1)
			r, err := etcd.Txn(ctx).If(c.Held()).Then(queue.Remove(c.Kind, c.ID), clientv3.OpPut("done/"+c.ID, "")).Commit()
			if err == nil && !r.Succeeded {
				return errors.New("lost")
			}
			return err
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	r, err := etcd.Get(t.Context(), "x")
	require.NoError(t, err)
	_, err = etcd.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = etcd.Defragment(t.Context(), cluster.Endpoints()[0])
	require.NoError(t, err)
	require.Zero(t, handled.Load(), "nothing can be claimed")
	_, err = etcd.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r, err := etcd.Get(t.Context(), "done/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == 20
	}, 30*time.Second, 5*time.Millisecond)
}
