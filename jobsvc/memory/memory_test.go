package memory

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

const mb = 1 << 20

func budget(t *testing.T, total int64) *Budget {
	b, err := New(total, prometheus.NewRegistry())
	require.NoError(t, err)
	return b
}

func status(err error) int {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e.Status
	}
	return 0
}

// TestTenantsAreApart: whoever comes finds room, however many take what they can.
func TestTenantsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 64*mb)
		for _, tenant := range []string{"a", "b", "c"} {
			taken := 0
			for b.Request(tenant).Take(t.Context(), mb) == nil {
				taken++
			}
			require.GreaterOrEqual(t, taken, 8, tenant)
		}
		require.Equal(t, int64(56*mb), b.Held(), "32, 16 and 8")
		err := b.Request("a").Take(t.Context(), mb)
		require.Equal(t, http.StatusTooManyRequests, status(err))
		e, _ := errors.AsType[*openai.Error](err)
		require.Equal(t, time.Second, e.RetryAfter)
		require.NoError(t, b.Request("d").Take(t.Context(), 4*mb))
		require.Equal(t, http.StatusServiceUnavailable, status(b.Request("e").Take(t.Context(), 4*mb)))
	})
}

func TestARequestWaitsBrieflyAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 8*mb)
		holder := b.Request("a")
		require.NoError(t, holder.Take(t.Context(), 4*mb))
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				h := b.Request("a")
				defer h.Release()
				if h.Take(t.Context(), 3*mb) == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		holder.Release()
		all.Wait()
		require.Equal(t, []int{0, 1, 2}, order)
		require.Zero(t, b.Held())
		require.Empty(t, b.byTenant)

		require.NoError(t, holder.Take(t.Context(), 4*mb))
		began := time.Now()
		require.Equal(t, 429, status(b.Request("a").Take(t.Context(), mb)))
		require.Equal(t, brief, time.Since(began))
		require.Equal(t, 429, status(b.Request("a").TakePaid(t.Context(), mb)))
		require.Equal(t, brief+patience, time.Since(began))
		done := make(chan error, 1)
		go func() { done <- b.Work("a").Take(t.Context(), mb) }()
		time.Sleep(time.Hour)
		holder.Release()
		require.NoError(t, <-done)
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 8*mb)
		holder := b.Request("a")
		require.NoError(t, holder.Take(t.Context(), 4*mb))
		for range maxOwn {
			go func() { _ = b.Request("a").Take(t.Context(), mb) }()
		}
		synctest.Wait()
		began := time.Now()
		require.Equal(t, 429, status(b.Request("a").Take(t.Context(), mb)))
		require.Zero(t, time.Since(began), "it does not wait")
		require.NoError(t, b.Request("b").Take(t.Context(), mb), "another tenant does not wait behind them")
	})
}

func TestWhatIsSmallPassesWhatIsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 8*mb)
		require.NoError(t, b.Request("a").Take(t.Context(), 3*mb))
		go func() { _ = b.Request("a").Take(t.Context(), 2*mb) }()
		synctest.Wait()
		began := time.Now()
		require.NoError(t, b.Request("a").Take(t.Context(), small))
		require.Zero(t, time.Since(began))
	})
}

// TestAbandonedRequestsLeaveNothing: of a thousand some have room, some wait, and all leave.
func TestAbandonedRequestsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget(t, 8*mb)
		var all sync.WaitGroup
		for i := range 1000 {
			ctx, leave := context.WithCancel(t.Context())
			all.Go(func() {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
				require.NoError(t, err)
				_ = b.Handle(r, strings.Repeat("x", i%7), func(r *http.Request) error {
					if err := Of(r.Context()).Take(r.Context(), mb); err != nil {
						return err
					}
					<-r.Context().Done()
					return r.Context().Err()
				})
			})
			if i%3 == 0 {
				synctest.Wait()
			}
			time.AfterFunc(time.Duration(i)*time.Millisecond, leave)
		}
		all.Wait()
		require.Zero(t, b.Held())
		require.Empty(t, b.byTenant)
		require.Empty(t, b.waiting)
	})
}

func TestASingleRequestIsNeverTooLarge(t *testing.T) {
	b := budget(t, 8*mb)
	h := b.Request("a")
	require.NoError(t, h.Take(t.Context(), 3*mb))
	require.NoError(t, h.Take(t.Context(), 100*mb), "it counts for half of all")
	require.Equal(t, int64(4*mb), b.Held())
	other := b.Request("b")
	require.NoError(t, other.Take(t.Context(), mb))
	h.Release()
	require.NoError(t, h.Take(t.Context(), 100*mb), "also beside a little of others")
	require.Equal(t, int64(5*mb), b.Held())
	other.Release()
	h.Release()
	require.NoError(t, h.Take(t.Context(), 103*mb))
	h.Give(100 * mb)
	require.Equal(t, int64(3*mb), b.Held())
	h.Release()
	h.Release()
	require.Zero(t, b.Held())
	var none *Budget
	require.NoError(t, none.Request("a").Take(t.Context(), mb))
	none.Request("a").Release()
	require.Zero(t, none.Held())
}

func TestReadAll(t *testing.T) {
	b := budget(t, 64*mb)
	for _, length := range []int64{-1, 0, 10, 300 << 10} {
		for _, size := range []int{0, 10, 300 << 10, 2 * mb} {
			h := b.Work("a")
			ctx := With(t.Context(), h)
			text, err := ReadAll(ctx, strings.NewReader(strings.Repeat("x", size)), length, 2*mb, 2, false)
			require.NoError(t, err)
			require.Len(t, text, size)
			require.GreaterOrEqual(t, b.Held(), int64(2*size))
			require.Less(t, b.Held(), int64(2*size)+2)
			h.Release()
		}
	}
	text, err := ReadAll(t.Context(), strings.NewReader(strings.Repeat("x", mb)), -1, 10, 1, true)
	require.NoError(t, err)
	require.Len(t, text, 11, "it is told from one that is not too long")
	_, err = ReadAll(t.Context(), io.MultiReader(strings.NewReader("x"), broken{}), -1, 10, 1, true)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
