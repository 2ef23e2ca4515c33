package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// acquire runs Acquire in the background, and tells its result.
func acquire(ctx context.Context, g *Gate) <-chan func() {
	result := make(chan func(), 1)
	go func() {
		release, err := g.Acquire(ctx)
		if err == nil {
			result <- release
		}
		close(result)
	}()
	synctest.Wait()
	return result
}

func load(g *Gate) [2]int {
	active, waiting := g.Load()
	return [2]int{active, waiting}
}

func TestAGateLetsInFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 2)
		first, err := g.Acquire(t.Context())
		require.NoError(t, err)
		a, b := acquire(t.Context(), g), acquire(t.Context(), g)
		_, err = g.Acquire(t.Context())
		require.ErrorIs(t, err, ErrFull)
		_, ok := g.TryAcquire()
		require.False(t, ok)
		require.Equal(t, [2]int{1, 2}, load(g))

		first()
		first()
		synctest.Wait()
		second := <-a
		require.Equal(t, [2]int{1, 1}, load(g), "releasing twice is once")
		second()
		(<-b)()
		require.Equal(t, [2]int{0, 0}, load(g))
		release, ok := g.TryAcquire()
		require.True(t, ok)
		release()
	})
}

func TestWhoLeavesTheQueueLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 3)
		first, err := g.Acquire(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone, next := acquire(ctx, g), acquire(t.Context(), g)
		cancel(errors.New("the client went away"))
		require.Nil(t, <-gone)
		require.Equal(t, [2]int{1, 1}, load(g))
		_, err = g.Acquire(ctx)
		require.ErrorContains(t, err, "the client went away")
		first()
		(<-next)()
		require.Equal(t, [2]int{0, 0}, load(g))
	})
}

func TestAGateIsResizedWhileItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 5)
		first, err := g.Acquire(t.Context())
		require.NoError(t, err)
		a, b, c := acquire(t.Context(), g), acquire(t.Context(), g), acquire(t.Context(), g)
		g.SetLimits(3, 0)
		synctest.Wait()
		require.Equal(t, [2]int{3, 1}, load(g), "who waits already stays")
		g.SetLimits(1, 0)
		(<-a)()
		(<-b)()
		require.Equal(t, [2]int{1, 1}, load(g))
		first()
		(<-c)()
		g.SetLimits(0, 0)
		for range 100 {
			_, err := g.Acquire(t.Context())
			require.NoError(t, err, "0 is no cap")
		}
	})
}

func TestARetryIsForcedBeyondTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1, 1)
		first, err := g.Acquire(t.Context())
		require.NoError(t, err)
		next := acquire(t.Context(), g)
		forced := g.Force()
		require.Equal(t, [2]int{2, 1}, load(g))
		first()
		synctest.Wait()
		require.Equal(t, [2]int{1, 1}, load(g), "the forced one still has the place")
		forced()
		(<-next)()
		require.Equal(t, [2]int{0, 0}, load(g))
	})
}

func TestAGateNeverExceedsItsCap(t *testing.T) {
	g := NewGate(5, 20)
	var active, most, passed atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(1000))*time.Microsecond)
				release, err := g.Acquire(ctx)
				if err == nil {
					n := active.Add(1)
					for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
					}
					<-time.After(time.Duration(random.IntN(100)) * time.Microsecond)
					passed.Add(1)
					active.Add(-1)
					release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.Equal(t, [2]int{0, 0}, load(g))
	require.Equal(t, int64(5), most.Load())
	require.NotZero(t, passed.Load())
}
