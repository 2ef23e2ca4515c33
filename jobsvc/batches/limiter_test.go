package batches

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A simulation is a provider that serves so many requests at once, each for as long as took says.
type simulation struct {
	limiter *limiter
	took    func(running int) (time.Duration, outcome)
	running atomic.Int64
	most    atomic.Int64
	served  atomic.Int64
	refused atomic.Int64
}

// run asks with so many workers for a while.
func (s *simulation) run(workers int, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for s.limiter.begin(ctx) == nil {
				began := time.Now()
				running := int(s.running.Add(1))
				s.most.Store(max(s.most.Load(), int64(running)))
				took, o := s.took(running)
				time.Sleep(took)
				s.running.Add(-1)
				if o == refused {
					s.refused.Add(1)
				} else {
					s.served.Add(1)
				}
				s.limiter.end(o, began, 0)
			}
		})
	}
	group.Wait()
}

func (l *limiter) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}

func TestTheLimitGrowsToItsMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{limiter: newLimiter(20), took: func(int) (time.Duration, outcome) { return time.Second, served }}
		require.Equal(t, startLimit, s.limiter.now())
		s.run(64, 10*time.Minute)
		require.Equal(t, 20, s.limiter.now())
		require.EqualValues(t, 20, s.most.Load())
	})
}

func TestTheLimitDoesNotGrowWhereItIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{limiter: newLimiter(64), took: func(int) (time.Duration, outcome) { return time.Second, served }}
		s.run(4, 10*time.Minute)
		require.Equal(t, startLimit, s.limiter.now())
	})
}

func TestTheLimitFindsWhatAProviderTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{limiter: newLimiter(64), took: func(running int) (time.Duration, outcome) {
			if running > 16 {
				return 10 * time.Millisecond, refused
			}
			return time.Second, served
		}}
		s.run(64, time.Hour)
		require.GreaterOrEqual(t, s.limiter.now(), 4)
		require.LessOrEqual(t, s.limiter.now(), 18)
		require.Greater(t, s.served.Load(), int64(3600*9), "most of what the provider could do was used")
		require.Less(t, s.refused.Load(), s.served.Load()/50)
	})
}

func TestRefusalsOfOneMomentHalveTheLimitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(64)
		began := time.Now()
		for range 8 {
			require.NoError(t, l.begin(t.Context()))
		}
		time.Sleep(time.Second)
		for range 8 {
			l.end(refused, began, 0)
		}
		require.Equal(t, 4, l.now())
		for range 10 {
			require.NoError(t, l.begin(t.Context()))
			l.end(refused, time.Now(), 0)
		}
		require.Equal(t, 1, l.now(), "one is always let through")
	})
}

func TestARetryAfterMakesAllWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(64)
		began := time.Now()
		require.NoError(t, l.begin(t.Context()))
		l.end(refused, began, 20*time.Second)
		require.NoError(t, l.begin(t.Context()))
		require.Equal(t, 20*time.Second, time.Since(began))
		l.end(refused, time.Now(), time.Hour)
		require.NoError(t, l.begin(t.Context()))
		require.Equal(t, 20*time.Second+maxPauseTold, time.Since(began), "one answer does not stop a model for long")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.end(refused, time.Now(), time.Hour)
		require.ErrorIs(t, l.begin(ctx), context.DeadlineExceeded)
		time.Sleep(maxPauseTold)
	})
}

func TestTheLimitStaysWhereMoreAtOnceOnlyQueuesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The provider works on 16 at once. Whatever is more waits there, and so does live traffic.
		s := &simulation{limiter: newLimiter(200), took: func(running int) (time.Duration, outcome) {
			return time.Second * time.Duration(max(running, 16)) / 16, served
		}}
		s.run(200, 30*time.Minute)
		require.GreaterOrEqual(t, s.limiter.now(), 16)
		require.LessOrEqual(t, s.most.Load(), int64(16*4), "latency stays within a small factor")
	})
}

func TestLongAnswersAmongShortOnesDoNotStopABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		s := &simulation{limiter: newLimiter(32), took: func(int) (time.Duration, outcome) {
			if n.Add(1)%20 == 0 {
				return time.Minute, served
			}
			return time.Second, served
		}}
		s.run(64, time.Hour)
		require.GreaterOrEqual(t, s.limiter.now(), startLimit)
	})
}

func TestAProviderThatBecameSlowIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := atomic.Bool{}
		s := &simulation{limiter: newLimiter(32), took: func(int) (time.Duration, outcome) {
			if slow.Load() {
				return 5 * time.Second, served
			}
			return time.Second, served
		}}
		s.run(64, 10*time.Minute)
		require.Equal(t, 32, s.limiter.now())
		slow.Store(true)
		s.run(64, 2*time.Minute)
		require.Less(t, s.limiter.now(), 32)
		s.run(64, 2*time.Hour)
		require.Equal(t, 32, s.limiter.now())
	})
}

func TestALimiterForgetsWhoDoesNotWaitAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1)
		require.NoError(t, l.begin(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.begin(ctx) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		go func() { ended <- l.begin(t.Context()) }()
		synctest.Wait()
		l.end(served, time.Now(), 0)
		require.NoError(t, <-ended)
		require.Empty(t, l.waiting)
		require.Equal(t, 1, l.running)
	})
}

func TestThePaceIsKeptOnAverage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(6000) // 100 a second
		began := time.Now()
		for range 10 {
			require.NoError(t, p.take(t.Context(), 500))
			p.settle(500, 1000) // it was more than estimated
		}
		require.InDelta(t, 90, time.Since(began).Seconds(), 2)
		for range 10 {
			require.NoError(t, p.take(t.Context(), 1000))
			p.settle(1000, 0)
		}
		require.InDelta(t, 100, time.Since(began).Seconds(), 2, "what was not used is given back")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, p.take(ctx, 100_000), "the largest comes through")
		require.ErrorIs(t, p.take(ctx, 100_000), context.DeadlineExceeded)
		before := time.Now()
		require.NoError(t, p.take(t.Context(), 1))
		require.InDelta(t, 1000, time.Since(before).Seconds(), 5, "one that gave up has used nothing")

		var none *pace
		require.NoError(t, none.take(t.Context(), 1<<40))
		none.settle(1, 1)
	})
}

func TestABudgetIsTakenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		require.NoError(t, b.take(t.Context(), 6))
		var mu sync.Mutex
		var got int64 // in all
		for i, n := range []int64{8, 1, 100} {
			go func() {
				time.Sleep(time.Duration(i) * time.Second)
				if b.take(t.Context(), n) == nil {
					mu.Lock()
					got += n
					mu.Unlock()
				}
			}()
		}
		time.Sleep(10 * time.Second)
		require.Zero(t, got, "a small one does not overtake")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.take(ctx, 1), context.DeadlineExceeded)
		b.add(3)
		b.put(6)
		synctest.Wait()
		require.Zero(t, got)
		b.put(3)
		synctest.Wait()
		require.EqualValues(t, 8+1, got)
		b.put(9)
		synctest.Wait()
		require.EqualValues(t, 8+1+100, got, "what is larger than all goes alone")
		require.EqualValues(t, 100, b.used)
	})
}
