package batches_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/files"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// requireEachLineOnce checks that each of so many lines is in the output, and that nothing was asked twice.
func (w *world) requireEachLineOnce(b wire, lines int) {
	w.t.Helper()
	require.Equal(w.t, "completed", b.status(), b.Raw)
	require.Len(w.t, w.file(b, "output_file_id"), lines)
	require.EqualValues(w.t, 7*lines, b.Get("usage.total_tokens").Int())
	total, _ := w.asked.total()
	require.Equal(w.t, lines, total)
}

func TestAnswersAreKeptWhileTheBlobStoreIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 300
	broken, restore := w.breakAt(100, "batches")
	w.run(nil)
	id := w.create(requests(lines))
	<-broken
	// What is in memory is bounded: no more lines are begun.
	w.eventually(func() bool {
		asked, _ := w.asked.total()
		return int64(asked)-w.get(id).Get("request_counts.completed").Int() == int64(w.limits.Open)
	})
	restore()
	w.requireEachLineOnce(w.over(id), lines)
}

func TestABatchGoesOnAfterEtcdWasAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 400
	var asked atomic.Int64
	reached := make(chan struct{})
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		if asked.Add(1) == 100 {
			close(reached)
		}
		return fine(ctx, a, n)
	}
	w.run(nil)
	id := w.create(requests(lines))
	<-reached
	w.server.Stop()
	w.server.Start(t)
	b := w.over(id)
	require.Equal(t, "completed", b.status())
	require.Len(t, w.file(b, "output_file_id"), lines)
	require.EqualValues(t, 7*lines, b.Get("usage.total_tokens").Int())
	_, twice := w.asked.total()
	require.LessOrEqual(t, twice, w.limits.Open)
}

func TestAWriteWhoseAnswerDoesNotComeIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{w.server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
				o ...grpc.CallOption) error {
				err := invoke(ctx, method, request, reply, c, o...)
				if strings.HasSuffix(method, "/Txn") && rand.N(3) == 0 {
					return errReset
				}
				return err
			})},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	w.run(client)
	const lines = 200
	w.requireEachLineOnce(w.over(w.create(requests(lines))), lines)
	require.Len(t, w.announced(), 1)
}

func TestABatchWhoseInputIsGoneFails(t *testing.T) {
	t.Parallel()
	t.Run("before it is read", func(t *testing.T) {
		w := newWorld(t)
		id := w.create(requests(3))
		require.NoError(t, w.bucket.Delete(t.Context(), files.BlobOf(w.get(id).Get("input_file_id").String())))
		w.run(nil)
		b := w.over(id)
		require.Equal(t, "failed", b.status())
		require.Equal(t, "input_file_unavailable", b.Get("errors.data.0.code").String())
		require.NotZero(t, b.Get("failed_at").Int())
		require.Equal(t, "null", b.Get("output_file_id").Raw)
	})
	t.Run("in the middle: what was done is delivered", func(t *testing.T) {
		w := newWorld(t)
		const lines = 200
		var once sync.Once
		release := make(chan struct{})
		reached := make(chan struct{})
		w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
			if number(a) > 50 {
				once.Do(func() { close(reached) })
				select {
				case <-release:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return fine(ctx, a, n)
		}
		id := w.create(requests(lines))
		kill := w.mortal()
		<-reached
		w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() >= 45 })
		kill()
		require.NoError(t, w.bucket.Delete(t.Context(), files.BlobOf(w.get(id).Get("input_file_id").String())))
		close(release)
		w.run(nil)
		b := w.over(id)
		require.Equal(t, "failed", b.status())
		require.Equal(t, "input_file_unavailable", b.Get("errors.data.0.code").String())
		require.Len(t, w.file(b, "output_file_id"), int(b.Get("request_counts.completed").Int()))
		require.GreaterOrEqual(t, b.Get("request_counts.completed").Int(), int64(45))
	})
}

func TestABatchWhoseAnswersAreGoneFails(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"a segment is gone":       os.Remove,
		"a segment is cut off":    func(path string) error { return os.Truncate(path, 600) },
		"a segment is empty":      func(path string) error { return os.Truncate(path, 0) },
		"a segment is other text": func(path string) error { return os.WriteFile(path, []byte("what\n"), 0o600) },
		"a segment lost its last": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			at := strings.LastIndex(strings.TrimSuffix(string(text), "\n"), "\n")
			return os.WriteFile(path, text[:at+1], 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id, record, release := w.killedAt20()
			require.NoError(t, spoil(filepath.Join(w.folder, "batches", id, record.Value.Head)))
			close(release)
			w.run(nil)
			b := w.over(id)
			require.Equal(t, "failed", b.status())
			require.Equal(t, "results_unavailable", b.Get("errors.data.0.code").String())
			require.Equal(t, "null", b.Get("output_file_id").Raw)
			w.collected()
		})
	}
}

func TestSegmentsStayFewWhereAnswersComeSlowly(t *testing.T) {
	w := newWorld(t)
	w.limits.Lines, w.limits.Open = 1, 4
	var most atomic.Int64
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		segments, _ := filepath.Glob(filepath.Join(w.folder, "batches", "*", "*"))
		most.Store(max(most.Load(), int64(len(segments))))
		return fine(ctx, a, n)
	}
	w.run(nil)
	w.requireEachLineOnce(w.over(w.create(requests(200))), 200)
	require.LessOrEqual(t, most.Load(), int64(3), "a small segment is taken over by the next")
}

// killedAt20 has a batch of 60 lines whose replica was killed when 20 were done. The others are answered once release
// is closed.
func (w *world) killedAt20() (id string, record *store.Record[batches.Batch], release chan struct{}) {
	w.t.Helper()
	release = make(chan struct{})
	w.asked.answer = stopped(20, release)
	id = w.create(requests(60))
	kill := w.mortal()
	w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == 20 })
	kill()
	record, err := batches.Kind.Get(w.t.Context(), w.store, tenant, id)
	require.NoError(w.t, err)
	return id, record, release
}

// stopped has lines beyond a number wait until a channel is closed or they are given up.
func stopped(beyond int, release <-chan struct{}) func(context.Context, gateway.Ask, int) (*http.Response, error) {
	return func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		if number(a) > beyond {
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return fine(ctx, a, n)
	}
}

// partial checks the files of a batch that was stopped after some lines.
func (w *world) partial(b wire, lines int, code, message string) {
	w.t.Helper()
	output, failed := w.file(b, "output_file_id"), w.file(b, "error_file_id")
	require.Len(w.t, output, int(b.Get("request_counts.completed").Int()))
	require.EqualValues(w.t, lines, b.Get("request_counts.total").Int())
	require.EqualValues(w.t, lines, len(output)+len(failed))
	for i := range lines {
		name := fmt.Sprint("a", i)
		if _, ok := output[name]; ok {
			continue
		}
		require.Equal(w.t, code, failed[name].Get("error.code").String())
		require.Equal(w.t, message, failed[name].Get("error.message").String())
		require.Equal(w.t, "null", failed[name].Get("response").Raw)
	}
}

const (
	cancelText = "This request was cancelled before it could be executed."
	expiryText = "This request could not be executed before the completion window expired."
)

func TestCancel(t *testing.T) {
	t.Parallel()
	cancel := func(w *world, id string) wire {
		answer := w.call("POST", "/v1/batches/"+id+"/cancel", "")
		require.Equal(w.t, http.StatusOK, answer.Code, answer.Body.String())
		return wireOf(answer)
	}
	t.Run("before the input is read", func(t *testing.T) {
		w := newWorld(t)
		id := w.create(requests(5))
		b := cancel(w, id)
		require.Equal(t, "cancelling", b.status())
		require.NotZero(t, b.Get("cancelling_at").Int())
		require.Equal(t, b.Raw, cancel(w, id).Raw, "a second cancel changes nothing")
		w.run(nil)
		b = w.over(id)
		require.Equal(t, "cancelled", b.status())
		require.NotZero(t, b.Get("cancelled_at").Int())
		require.Equal(t, "null", b.Get("output_file_id").Raw)
		require.Equal(t, "null", b.Get("error_file_id").Raw)
		require.Equal(t, b.Raw, cancel(w, id).Raw, "nor does one afterwards")
		total, _ := w.asked.total()
		require.Zero(t, total)
		require.Equal(t, []string{"announced/batch.cancelled/" + id}, w.announced())
	})
	t.Run("while lines are asked: those in flight may end", func(t *testing.T) {
		w := newWorld(t)
		w.limits.Grace = time.Minute
		release := make(chan struct{})
		w.asked.answer = stopped(10, release)
		w.run(nil)
		id := w.create(requests(100))
		w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == 10 })
		b := cancel(w, id)
		require.Equal(t, "cancelling", b.status())
		require.EqualValues(t, 10, b.Get("request_counts.completed").Int())
		w.eventually(func() bool { return w.logs.FilterMessageSnippet("no more of its lines").Len() == 1 })
		total, _ := w.asked.total()
		close(release)
		b = w.over(id)
		require.Equal(t, "cancelled", b.status())
		w.partial(b, 100, "batch_cancelled", cancelText)
		later, _ := w.asked.total()
		require.LessOrEqual(t, later, total+w.limits.Open, "no line is begun any more")
		require.Less(t, later, 100)
	})
	t.Run("while lines are asked: what takes too long is given up", func(t *testing.T) {
		w := newWorld(t)
		w.asked.answer = stopped(10, nil)
		w.run(nil)
		id := w.create(requests(100))
		w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == 10 })
		cancel(w, id)
		b := w.over(id)
		require.Equal(t, "cancelled", b.status())
		require.EqualValues(t, 10, b.Get("request_counts.completed").Int())
		w.partial(b, 100, "batch_cancelled", cancelText)
	})
	t.Run("while nobody works on it", func(t *testing.T) {
		w := newWorld(t)
		w.asked.answer = stopped(10, nil)
		id := w.create(requests(30))
		kill := w.mortal()
		w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() == 10 })
		kill()
		cancel(w, id)
		w.run(nil)
		b := w.over(id)
		require.Equal(t, "cancelled", b.status())
		w.partial(b, 30, "batch_cancelled", cancelText)
	})
	t.Run("while the files are written", func(t *testing.T) {
		w := newWorld(t)
		_, restore := w.breakAt(5, "files")
		id := w.create(requests(5))
		w.run(nil)
		w.until(id, func(b wire) bool { return b.status() == "finalizing" })
		w.refuses(id, "finalizing")
		restore()
		require.Equal(t, "completed", w.over(id).status())
		w.refuses(id, "completed")
	})
	t.Run("after it failed", func(t *testing.T) {
		w := newWorld(t)
		w.run(nil)
		id := w.create("")
		w.over(id)
		w.refuses(id, "failed")
	})
	t.Run("by several at once, while its record changes all the time", func(t *testing.T) {
		w := newWorld(t)
		w.run(nil)
		id := w.create(requests(2000))
		w.until(id, func(b wire) bool { return b.Get("request_counts.completed").Int() > 0 })
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				answer := w.call("POST", "/v1/batches/"+id+"/cancel", "")
				if answer.Code != http.StatusOK && answer.Code != http.StatusConflict {
					t.Error(answer.Body.String())
				}
			})
		}
		group.Wait()
		b := w.over(id)
		if b.status() == "cancelled" {
			w.partial(b, 2000, "batch_cancelled", cancelText)
		}
	})
}

func (w *world) refuses(id, status string) {
	w.t.Helper()
	answer := w.call("POST", "/v1/batches/"+id+"/cancel", "")
	require.Equal(w.t, http.StatusConflict, answer.Code)
	require.Equal(w.t, "false", answer.Header().Get("X-Should-Retry"))
	require.JSONEq(w.t,
		fmt.Sprintf(`{"error":{"message":"Cannot cancel a batch with status '%s'.","type":"invalid_request_error","param":null,"code":null}}`, status), answer.Body.String())
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	t.Run("before the input is read", func(t *testing.T) {
		w := newWorld(t)
		w.limits.Window = time.Nanosecond
		w.run(nil)
		id := w.create(requests(5))
		b := w.over(id)
		require.Equal(t, "expired", b.status())
		require.NotZero(t, b.Get("expired_at").Int())
		require.Equal(t, "null", b.Get("error_file_id").Raw)
		w.refuses(id, "expired")
	})
	t.Run("while lines are asked", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.limits.Window = 10 * time.Second // by then the lines are asked, also on a busy machine
		w.asked.answer = stopped(10, nil)
		w.run(nil)
		id := w.create(requests(100))
		b := w.over(id)
		require.Equal(t, "expired", b.status())
		require.EqualValues(t, 10, b.Get("request_counts.completed").Int())
		require.EqualValues(t, 70, b.Get("usage.total_tokens").Int())
		w.partial(b, 100, "batch_expired", expiryText)
		require.Equal(t, []string{"announced/batch.expired/" + id}, w.announced())
	})
	t.Run("while a line waits as long as it was told", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.limits.Window = 10 * time.Second
		w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) {
			return respond(429, `{}`, "Retry-After", "3600"), nil
		}
		w.run(nil)
		b := w.over(w.create(requests(3)))
		require.Equal(t, "expired", b.status())
		w.partial(b, 3, "batch_expired", expiryText)
	})
	t.Run("while a cancel is under way: it is cancelled", func(t *testing.T) {
		w := newWorld(t)
		w.limits.Window = time.Second
		id := w.create(requests(3))
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
		w.now = func() time.Time { return time.Now().Add(time.Minute) }
		w.run(nil)
		require.Equal(t, "cancelled", w.over(id).status())
	})
}

// TestABatchOfARestoredEtcdBeginsAnew has the record of a batch be from a backup: written at a revision that the
// present etcd has not come to, and with a segment that was joined with others since.
func TestABatchOfARestoredEtcdBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, record, release := w.killedAt20()
	require.NoError(t, os.Remove(filepath.Join(w.folder, "batches", id, record.Value.Head)))
	record.Value.Epoch += 1_000_000
	txn := w.store.Begin()
	batches.Kind.Update(txn, record)
	require.NoError(t, txn.Commit(t.Context()))
	close(release)
	w.run(nil)
	b := w.over(id)
	require.Equal(t, "completed", b.status())
	require.EqualValues(t, 60, b.Get("request_counts.completed").Int())
	require.Len(t, w.file(b, "output_file_id"), 60)
	w.collected()
}
