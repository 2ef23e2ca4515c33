package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const kind = "test"

// A bench is an etcd with a queue, and what its workers did.
type bench struct {
	t      *testing.T
	server *etcdtest.Server
	etcd   *clientv3.Client
	ttl    time.Duration // of leases

	mu     sync.Mutex
	claims []queue.Claim  // in order
	now    map[string]int // handlers that run, by item
	most   int            // of them at once, of one item
}

func newBench(t *testing.T) *bench {
	server := etcdtest.New(t)
	return &bench{t: t, server: server, etcd: server.Client(t), ttl: time.Second, now: map[string]int{}}
}

func (b *bench) put(items ...queue.Item) {
	b.t.Helper()
	for _, i := range items {
		i.Kind = kind
		_, err := b.etcd.Do(b.t.Context(), queue.Put(i))
		require.NoError(b.t, err)
	}
}

// done takes an item out of the queue as its worker does.
func (b *bench) done(ctx context.Context, c *queue.Claim, more ...clientv3.Op) error {
	r, err := b.etcd.Txn(ctx).If(c.Held()).Then(append(more, queue.Remove(c.Kind, c.ID))...).Commit()
	if err == nil && !r.Succeeded {
		err = errors.New("the claim is lost")
	}
	return err
}

// start runs a replica until the test ends or stop is called, which waits for it.
func (b *bench) start(client *clientv3.Client, n int, handle queue.Handler) (stop func()) {
	return b.startReady(client, n, func(queue.Item) bool { return true }, handle)
}

func (b *bench) startReady(client *clientv3.Client, n int, ready func(queue.Item) bool,
	handle queue.Handler) (stop func()) {
	b.t.Helper()
	q := queue.New(queue.Options{Etcd: client, Node: "node", TTL: b.ttl, Log: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.WorkReady(ctx, kind, n, ready, func(ctx context.Context, c *queue.Claim) error {
			b.mu.Lock()
			b.claims = append(b.claims, *c)
			b.now[c.ID]++
			b.most = max(b.most, b.now[c.ID])
			b.mu.Unlock()
			defer func() {
				b.mu.Lock()
				b.now[c.ID]--
				b.mu.Unlock()
			}()
			return handle(ctx, c)
		})
	}()
	stop = func() { cancel(); <-ended }
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) claimed() []queue.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]queue.Claim(nil), b.claims...)
}

func (b *bench) eventually(what func() bool) {
	b.t.Helper()
	require.Eventually(b.t, what, 15*time.Second, 2*time.Millisecond)
}

// revision returns etcd's, which counts the writes.
func (b *bench) revision() int64 {
	b.t.Helper()
	r, err := b.etcd.Get(b.t.Context(), "revision", clientv3.WithCountOnly())
	require.NoError(b.t, err)
	return r.Header.Revision
}

// keys returns the keys of the queue or of its claims.
func (b *bench) keys(folder string) []string {
	b.t.Helper()
	r, err := b.etcd.Get(b.t.Context(), store.Root+folder+"/"+kind+"/", clientv3.WithPrefix())
	require.NoError(b.t, err)
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

func (b *bench) loseClaims() {
	b.t.Helper()
	r, err := b.etcd.Get(b.t.Context(), store.Root+"claims/", clientv3.WithPrefix())
	require.NoError(b.t, err)
	for _, kv := range r.Kvs {
		_, _ = b.etcd.Revoke(b.t.Context(), clientv3.LeaseID(kv.Lease)) // one lease has several claims
	}
}

func TestEachItemIsHandledOnceByOneOfSeveralReplicas(t *testing.T) {
	b := newBench(t)
	b.ttl = 20 * time.Second // a lease that is lost on a busy machine would have items handled twice, and rightly so
	const items = 60
	for range 3 {
		b.start(b.server.Client(t), 4, b.doneAtOnce)
	}
	for i := range items {
		b.put(queue.Item{ID: fmt.Sprint("id/", i), Value: json.RawMessage(`{"a":1}`)})
	}
	b.eventually(func() bool { return len(b.keys("queue")) == 0 && len(b.keys("claims")) == 0 })
	seen := map[string]bool{}
	epochs := map[int64]bool{}
	for _, c := range b.claimed() {
		require.False(t, seen[c.ID], "handled twice: %s", c.ID)
		require.False(t, epochs[c.Epoch], "two claims have one epoch")
		require.JSONEq(t, `{"a":1}`, string(c.Value))
		require.Equal(t, kind, c.Kind)
		seen[c.ID], epochs[c.Epoch] = true, true
	}
	require.Len(t, seen, items)
}

func (b *bench) doneAtOnce(ctx context.Context, c *queue.Claim) error { return b.done(ctx, c) }

func TestAReplicaHandlesAsManyAtOnceAsItIsTold(t *testing.T) {
	b := newBench(t)
	b.ttl = 20 * time.Second
	release := make(chan struct{})
	b.start(b.etcd, 2, func(ctx context.Context, c *queue.Claim) error {
		select {
		case <-release:
			return b.done(ctx, c)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	b.put(queue.Item{ID: "a"}, queue.Item{ID: "b"}, queue.Item{ID: "c"})
	b.eventually(func() bool { return len(b.keys("claims")) == 2 && len(b.claimed()) == 2 })
	close(release)
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
	require.Len(t, b.claimed(), 3)
}

func TestAnotherTakesUpWhatALostLeaseHeld(t *testing.T) {
	b := newBench(t)
	b.put(queue.Item{ID: "a"})
	lost := make(chan error, 1)
	var once sync.Once
	handle := func(ctx context.Context, c *queue.Claim) error {
		first := false
		once.Do(func() { first = true })
		if !first {
			return b.done(ctx, c)
		}
		<-ctx.Done()
		lost <- b.done(context.WithoutCancel(ctx), c) // it writes without having noticed
		return ctx.Err()
	}
	b.start(b.server.Client(t), 1, handle)
	b.eventually(func() bool { return len(b.claimed()) == 1 })
	b.start(b.server.Client(t), 1, handle)
	b.loseClaims()
	require.ErrorContains(t, <-lost, "the claim is lost")
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
	claims := b.claimed()
	require.Len(t, claims, 2)
	require.Greater(t, claims[1].Epoch, claims[0].Epoch)
}

func TestAReplicaThatStopsLetsGoAtOnce(t *testing.T) {
	b := newBench(t)
	b.put(queue.Item{ID: "a"})
	stop := b.start(b.server.Client(t), 1, func(ctx context.Context, _ *queue.Claim) error {
		<-ctx.Done()
		return ctx.Err()
	})
	b.eventually(func() bool { return len(b.keys("claims")) == 1 })
	stop()
	require.Empty(t, b.keys("claims"))
	require.Len(t, b.keys("queue"), 1)
}

func TestWhatIsPutOffIsHandledWhenItIsDue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	due := time.Now().Add(2 * time.Second).Unix()
	b.start(b.etcd, 1, func(ctx context.Context, c *queue.Claim) error {
		if time.Now().Unix() < due {
			_, err := b.etcd.Txn(ctx).If(c.Held()).Then(queue.Put(queue.Item{Kind: kind, ID: c.ID, NotBefore: due})).Commit()
			return err
		}
		return b.done(ctx, c)
	})
	b.put(queue.Item{ID: "now"}, queue.Item{ID: "later", NotBefore: due})
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
	require.GreaterOrEqual(t, time.Now().Unix(), due)
	claims := b.claimed()
	require.Len(t, claims, 3, "one is handled twice, and no other time")
	require.Equal(t, "now", claims[0].ID)
}

func TestWhatWasPutOffIsHandledEarlierWhenItIsPutAgain(t *testing.T) {
	b := newBench(t)
	b.start(b.etcd, 1, b.doneAtOnce)
	b.put(queue.Item{ID: "a", NotBefore: time.Now().Add(time.Hour).Unix()}, queue.Item{ID: "b"})
	b.eventually(func() bool { return len(b.keys("queue")) == 1 })
	b.put(queue.Item{ID: "a"})
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
}

func TestAnItemThatIsNotReadyIsNeitherClaimedNorInTheWayOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var opened atomic.Bool
	ready := func(i queue.Item) bool { return opened.Load() || string(i.Value) == `"ready"` }
	b.startReady(b.etcd, 1, ready, b.doneAtOnce)
	before := b.revision()
	for i := range 20 {
		b.put(queue.Item{ID: fmt.Sprint("waits-", i)})
	}
	b.put(queue.Item{ID: "goes", Value: json.RawMessage(`"ready"`)})
	b.eventually(func() bool { return len(b.keys("queue")) == 20 })
	require.Len(t, b.claimed(), 1)
	b.eventually(func() bool { return len(b.keys("claims")) == 0 })
	require.LessOrEqual(t, b.revision()-before, int64(21+3), "the claim, the end and the release of one, and no other write")
	opened.Store(true)
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
}

func TestAFailedItemIsTriedAgainAfterAPauseThatGrows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var times []time.Time
	b.start(b.etcd, 1, func(ctx context.Context, c *queue.Claim) error {
		if times = append(times, time.Now()); len(times) < 4 {
			return errors.New("it does not work yet")
		}
		return b.done(ctx, c)
	})
	b.put(queue.Item{ID: "a"})
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
	require.Len(t, times, 4)
	for i, least := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
		require.GreaterOrEqual(t, times[i+1].Sub(times[i]), least)
	}
	require.Equal(t, 1, b.most)
}

func TestAnItemThatIsRemovedWhileItWaitsIsNotHandled(t *testing.T) {
	b := newBench(t)
	release := make(chan struct{})
	b.start(b.etcd, 1, func(ctx context.Context, c *queue.Claim) error {
		<-release
		return b.done(ctx, c)
	})
	b.put(queue.Item{ID: "a"})
	b.eventually(func() bool { return len(b.keys("claims")) == 1 })
	b.put(queue.Item{ID: "b"})
	_, err := b.etcd.Do(t.Context(), queue.Remove(kind, "b"))
	require.NoError(t, err)
	close(release)
	b.eventually(func() bool { return len(b.keys("queue")) == 0 && len(b.keys("claims")) == 0 })
	b.put(queue.Item{ID: "c"})
	b.eventually(func() bool { return len(b.claimed()) == 2 && len(b.keys("queue")) == 0 })
	require.Equal(t, "c", b.claimed()[1].ID)
}

func TestAnItemThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	_, err := b.etcd.Put(t.Context(), store.Root+"queue/"+kind+"/bad", "{")
	require.NoError(t, err)
	b.start(b.etcd, 1, b.doneAtOnce)
	b.put(queue.Item{ID: "a"})
	b.eventually(func() bool { return len(b.keys("queue")) == 1 })
}

func TestWorkGoesOnAfterEtcdWasAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(b.etcd, 2, b.doneAtOnce)
	b.put(queue.Item{ID: "a"})
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
	b.server.Stop()
	b.server.Start(t)
	b.put(queue.Item{ID: "b"})
	b.eventually(func() bool { return len(b.keys("queue")) == 0 })
	require.Equal(t, "b", b.claimed()[1].ID)
}

func TestHeldRefusesAWriteOnceTheClaimIsLost(t *testing.T) {
	b := newBench(t)
	b.put(queue.Item{ID: "a"})
	claims := make(chan *queue.Claim, 2)
	stop := b.start(b.server.Client(t), 1, func(ctx context.Context, c *queue.Claim) error {
		claims <- c
		<-ctx.Done()
		return nil
	})
	write := func(c *queue.Claim) bool {
		r, err := b.etcd.Txn(t.Context()).If(c.Held()).Then(clientv3.OpPut("written", fmt.Sprint(c.Epoch))).Commit()
		require.NoError(t, err)
		return r.Succeeded
	}
	first := <-claims
	require.True(t, write(first))
	stop()
	require.False(t, write(first), "nobody holds it")
	b.start(b.etcd, 1, func(ctx context.Context, c *queue.Claim) error {
		claims <- c
		<-ctx.Done()
		return nil
	})
	second := <-claims
	require.False(t, write(first), "another holds it")
	require.True(t, write(second))
}

func TestNothingIsLeftRunning(t *testing.T) {
	b := newBench(t)
	stop := b.start(b.etcd, 2, func(ctx context.Context, c *queue.Claim) error {
		if c.ID == "a" {
			return errors.New("it is tried again later")
		}
		<-ctx.Done()
		return ctx.Err()
	})
	b.put(queue.Item{ID: "a"}, queue.Item{ID: "b"}, queue.Item{ID: "c", NotBefore: time.Now().Add(time.Hour).Unix()})
	b.eventually(func() bool { return len(b.claimed()) >= 2 })
	stop()
	// etcd, which is in this process, and its client have goroutines that come and go; only ours count, and the
	// session's.
	b.eventually(func() bool {
		stacks := make([]byte, 4<<20)
		text := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(text, "modelgate/jobsvc/queue.") && !strings.Contains(text, "concurrency.NewSession")
	})
}
