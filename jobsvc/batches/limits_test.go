package batches_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/gateway"
)

func failure(typ, code string) string {
	return `{"error":{"message":"no","type":"` + typ + `","param":null,"code":"` + code + `"}}`
}

func TestWhatIsNoFaultOfALineTakesNoneOfItsTries(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() *http.Response{
		"a limit that says when": func() *http.Response {
			return respond(429, failure("requests", "rate_limit_exceeded"), "Retry-After-Ms", "1")
		},
		"a limit that does not": func() *http.Response { return respond(429, failure("tokens", "rate_limit_exceeded")) },
		"ext_proc is away": func() *http.Response {
			return respond(503, failure("server_error", "gateway_unavailable"))
		},
		"the store of limits is away": func() *http.Response {
			return respond(503, failure("server_error", "limits_unavailable"), "Retry-After-Ms", "1")
		},
		"all providers have enough to do": func() *http.Response {
			return respond(503, failure("server_error", "server_is_overloaded"), "Retry-After-Ms", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.limits.Backoff = time.Microsecond
			w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
				if n <= 8 {
					return answer(), nil
				}
				return fine(ctx, a, n)
			}
			w.run(nil)
			b := w.over(w.create(requests(2)))
			require.JSONEq(t, `{"total":2,"completed":2,"failed":0}`, b.Get("request_counts").Raw)
		})
	}
}

func TestALineIsNotKeptWaitingBeyondItsBatch(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]string{"for an hour": "3600", "for less": "0.01"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.limits.Window = 10 * time.Second // by then the lines are asked, also on a busy machine
			w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) {
				return respond(429, failure("requests", "rate_limit_exceeded"), "Retry-After", wait), nil
			}
			w.run(nil)
			b := w.over(w.create(requests(3)))
			require.Equal(t, "expired", b.status())
			w.partial(b, 3, "batch_expired", expiryText)
		})
	}
}

func TestWhatWaitingDoesNotHelpEndsALineAtOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() *http.Response{
		"a budget that is spent": func() *http.Response {
			return respond(429, failure("insufficient_quota", "insufficient_quota"))
		},
		"a quota, by its type": func() *http.Response {
			return respond(429, failure("insufficient_quota", "billing_hard_limit"), "Retry-After", "60")
		},
		"a line that exceeds the limit": func() *http.Response {
			return respond(429, failure("tokens", "rate_limit_exceeded"), "X-Should-Retry", "false")
		},
		"a failure that is said to last": func() *http.Response {
			return respond(503, failure("server_error", "gateway_unavailable"), "X-Should-Retry", "false")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) { return answer(), nil }
			w.run(nil)
			b := w.over(w.create(requests(20)))
			require.Equal(t, "completed", b.status())
			failed := w.file(b, "error_file_id")
			require.Len(t, failed, 20)
			require.Equal(t, "no", failed["a3"].Get("response.body.error.message").String())
			total, _ := w.asked.total()
			require.Equal(t, 20, total)
		})
	}
}

func TestALimitOfOneKeyDoesNotHoldUpAnothers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var refused atomic.Int64
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		if a.Key == "key-1" {
			refused.Add(1)
			return respond(429, failure("requests", "rate_limit_exceeded"), "Retry-After", "3600"), nil
		}
		return fine(ctx, a, n)
	}
	stop := w.run(nil)
	w.create(requests(20))
	w.eventually(func() bool { return refused.Load() > 0 })
	id := w.createAs("key-2", requests(20))
	b := w.until(id, func(b wire) bool { return b.status() == "completed" })
	require.EqualValues(t, 20, b.Get("request_counts.completed").Int())
	stop()
}

func TestAllKeysTogetherAskNoMoreThanAModelIsToGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.limits.Lines = 3
	var running, most atomic.Int64
	w.asked.answer = func(ctx context.Context, a gateway.Ask, n int) (*http.Response, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-time.After(5 * time.Millisecond)
		return fine(ctx, a, n)
	}
	ids := []string{w.createAs("key-1", requests(50)), w.createAs("key-2", requests(50))}
	w.run(nil)
	for _, id := range ids {
		require.Equal(t, "completed", w.over(id).status())
	}
	require.EqualValues(t, 3, most.Load())
}

func TestABatchThatRunsSaysWhatItsLinesMeet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := failure("requests", "rate_limit_exceeded")
	w.asked.answer = func(context.Context, gateway.Ask, int) (*http.Response, error) {
		return respond(429, refused, "Retry-After", "3600"), nil
	}
	w.run(nil)
	id := w.create(requests(3))
	var met *adminapi.BatchProgress
	w.eventually(func() bool {
		r, err := batches.Kind.Get(t.Context(), w.store, tenant, id)
		require.NoError(t, err)
		met = batches.Progress(r)
		return met != nil && met.Tries > 0
	})
	require.Equal(t, []any{429, "rate_limit_exceeded", 0.0}, []any{met.Status, met.ErrorCode, met.PerMinute})
	require.NotEmpty(t, met.Message)
	require.WithinDuration(t, time.Now().Add(time.Hour), *met.WaitsUntil, time.Minute)

	waiting, err := batches.Waiting(t.Context(), w.store, w.etcd, 10)
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	running := batches.Running(waiting[0])
	require.Equal(t, []any{id, 0, 3, *met.AnsweredAt}, []any{running.ID, running.Done, running.Total, running.Answered})
}

// The gateway is told which try of a line is the last, so that the tries before count as no request.
func TestTheLastTryOfALineIsToldFromTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var again []bool
	w.asked.answer = func(_ context.Context, a gateway.Ask, _ int) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		again = append(again, a.Again)
		return respond(500, failure("server_error", "x")), nil
	}
	w.run(nil)
	w.over(w.create(requests(1)))
	require.Equal(t, []bool{true, true, true, true, false}, again)
}
