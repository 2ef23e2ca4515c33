package batches_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// mortal runs a replica that dies at once when what it returns is called: nothing that it does then reaches etcd, and
// its claims go as if their time had come.
func (w *world) mortal() (kill func()) {
	w.t.Helper()
	var dead atomic.Bool
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{w.server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
				o ...grpc.CallOption) error {
				if dead.Load() {
					return errReset
				}
				return invoke(ctx, method, request, reply, c, o...)
			})},
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	cancel, wait := w.start(client)
	return func() {
		dead.Store(true)
		cancel()
		w.loseClaims()
		w.dead = append(w.dead, wait)
	}
}

// loseClaims ends the leases of all claims.
func (w *world) loseClaims() {
	w.t.Helper()
	r, err := w.etcd.Get(w.t.Context(), store.Root+"claims/", clientv3.WithPrefix())
	require.NoError(w.t, err)
	for _, kv := range r.Kvs {
		_, _ = w.etcd.Revoke(w.t.Context(), clientv3.LeaseID(kv.Lease)) // one lease has several claims
	}
}

func TestABatchOutlivesItsWorkers(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			const lines = 500
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			var asked, at atomic.Int64
			at.Store(random.Int64N(300))
			reached := make(chan struct{}, 1)
			w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
				if asked.Add(1) == at.Load() {
					reached <- struct{}{}
				}
				if rand.N(20) == 0 {
					return nil, errReset
				}
				w.asked.answered(a)
				if number(a)%10 == 0 {
					return respond(400, `{"error":{"message":"no"}}`), nil
				}
				return fine(ctx, a, n)
			}
			id := w.create(requests(lines))
			kill := w.mortal()
			const deaths = 3
			for range deaths {
				w.eventually(func() bool { return len(reached) > 0 || w.get(id).Get("completed_at").Int() != 0 })
				for len(reached) > 0 {
					<-reached
				}
				if random.IntN(2) == 0 {
					w.loseClaims() // it does not know yet, and goes on
				}
				next := w.mortal() // two at once
				kill()
				kill = next
				at.Store(asked.Load() + 20 + random.Int64N(100))
			}
			b := w.over(id)

			require.Equal(t, "completed", b.status())
			output, failed := w.file(b, "output_file_id"), w.file(b, "error_file_id")
			for i := range lines {
				name := fmt.Sprint("a", i)
				_, good := output[name]
				_, bad := failed[name]
				require.True(t, good != bad, "%s is in one file: %v %v", name, good, bad)
			}
			require.Len(t, output, int(b.Get("request_counts.completed").Int()))
			require.Len(t, failed, int(b.Get("request_counts.failed").Int()))
			require.EqualValues(t, lines, len(output)+len(failed))
			require.EqualValues(t, 7*len(output), b.Get("usage.total_tokens").Int(), "what was answered twice is counted once")
			require.Len(t, w.announced(), 1)
			kill()
			w.collected()

			require.LessOrEqual(t, w.asked.answeredAgain(), 2*deaths*w.limits.Open)
		})
	}
}

func TestLinesThatAreDurableAreNotAskedAgain(t *testing.T) {
	w := newWorld(t)
	const lines = 300
	var asked atomic.Int64
	reached := make(chan struct{})
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		if asked.Add(1) == 200 {
			close(reached)
		}
		return fine(ctx, a, n)
	}
	id := w.create(requests(lines))
	kill := w.mortal()
	<-reached
	kill()
	w.run(nil)
	b := w.over(id)
	require.Len(t, w.file(b, "output_file_id"), lines)
	total, twice := w.asked.total()
	require.LessOrEqual(t, twice, w.limits.Open)
	require.LessOrEqual(t, total, lines+w.limits.Open)
}

func TestAReplicaThatStopsWritesWhatItHasAsked(t *testing.T) {
	w := newWorld(t)
	const lines = 200
	var asked atomic.Int64
	reached := make(chan struct{})
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		if asked.Add(1) == 100 {
			close(reached)
		}
		return fine(ctx, a, n)
	}
	id := w.create(requests(lines))
	stop := w.run(nil)
	<-reached
	stop()
	w.run(nil)
	require.Len(t, w.file(w.over(id), "output_file_id"), lines)
	total, _ := w.asked.total()
	require.Equal(t, lines, total)
}

func TestTheFilesAreWrittenAgainWhereTheirWriterDied(t *testing.T) {
	w := newWorld(t)
	id := w.create(requests(50))
	// The store of files is away when the batch is drained: what is recorded by then is all that the next worker has.
	_, restore := w.breakAt(50, "files")
	kill := w.mortal()
	b := w.until(id, func(b wire) bool { return b.status() == "finalizing" })
	require.Equal(t, "null", b.Get("output_file_id").Raw)
	kill()
	restore()
	w.run(nil)
	b = w.over(id)
	require.Equal(t, "completed", b.status())
	require.Len(t, w.file(b, "output_file_id"), 50)
	total, _ := w.asked.total()
	require.Equal(t, 50, total)
}

func TestSegmentsOfABatchThatRunsAreNotCollected(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.asked.answer = stopped(10, release)
	w.run(nil)
	id := w.create(requests(20))
	w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == 10 })
	later := w.service(nil)
	later.Now = func() time.Time { return time.Now().Add(72 * time.Hour) }
	require.NoError(t, later.Collect(t.Context()))
	require.NotZero(t, w.segments())
	close(release)
	require.Len(t, w.file(w.over(id), "output_file_id"), 20)
}
