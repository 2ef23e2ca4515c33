package limit

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/redistest"
)

func TestWindowsAreSeededWithWhatWasUsedBefore(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		hour := Rule{Counter: "h", Measure: Requests, Window: Hour, Limit: 10}
		day := Rule{Counter: "d", Measure: Tokens, Window: Day, Limit: 1000}
		now := time.Now()
		require.NoError(t, l.Seed(t.Context(), []Past{
			{"h", Hour, now.Add(-30 * time.Minute), 4}, {"h", Hour, now.Add(-10 * time.Minute), 3},
			{"h", Hour, now.Add(-61 * time.Minute), 50},
			{"d", Day, now.Add(-23 * time.Hour), 400}, {"d", Day, now, 300}, {"d", Day, now.Add(-25 * time.Hour), 5000},
			{"m", Minute, now, 0}, {"b", CalendarDay, now, 7},
		}))
		require.Equal(t, []int64{3, 300}, remaining(t, l, hour, day))
		d := reserve(t, l, Amounts{Requests: 1, Tokens: 301}, hour, day)
		require.Equal(t, 1, d.Refused)
		require.InDelta(t, time.Hour, d.RetryAfter, float64(25*time.Minute),
			"when what was used 23 hours ago counts no more")
		d = reserve(t, l, Amounts{Requests: 4}, hour)
		require.Equal(t, 0, d.Refused)
		require.InDelta(t, 30*time.Minute, d.RetryAfter, float64(2*time.Minute))
		d = reserve(t, l, Amounts{Requests: 3, Tokens: 300}, hour, day)
		require.Equal(t, -1, d.Refused)
		d.Reservation.Settle(Amounts{Requests: 3, Tokens: 100})
		flushed(t, l)
		require.Equal(t, []int64{0, 200}, remaining(t, l, hour, day))
		sound(t, l)
	})
}

// TestAStoreThatHasCountedIsLeftAlone: what this process knows of the past may be what the store has counted.
func TestAStoreThatHasCountedIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := newRedis(t, redistest.Start(t), RedisOptions{})
	hour := Rule{Counter: "h", Measure: Requests, Window: Hour, Limit: 10}
	reserve(t, l, Amounts{Requests: 2}, hour).Reservation.Settle(Amounts{Requests: 2})
	now := time.Now()
	past := []Past{{"h", Hour, now, 5}, {"other", Hour, now, 1}, {"other", Hour, now.Add(-time.Minute), 2}}
	for range 2 {
		require.NoError(t, l.Seed(t.Context(), past))
		require.Equal(t, []int64{8, 7}, remaining(t, l, hour, Rule{Counter: "other", Measure: Requests, Window: Hour,
			Limit: 10}))
	}
}

// TestNoWindowAdmitsMoreThanItsLimitAcrossRestarts restarts a process again and again under a flood. Of what it had
// admitted it is told by the minute, as late as it may have been.
func TestNoWindowAdmitsMoreThanItsLimitAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		rule := Rule{Counter: "c", Measure: Requests, Window: Hour, Limit: 50}
		var admitted []time.Time
		for range 40 {
			l := NewMemory(Options{})
			var past []Past
			for _, at := range admitted {
				past = append(past, Past{"c", Hour, at.Truncate(time.Minute).Add(time.Minute), 1})
			}
			require.NoError(t, l.Seed(t.Context(), past))
			for range 5 + random.IntN(40) {
				time.Sleep(time.Duration(random.IntN(60)) * time.Second) // of the bubble
				if d := reserve(t, l, Amounts{Requests: 1}, rule); d.Reservation != nil {
					d.Reservation.Settle(Amounts{Requests: 1})
					admitted = append(admitted, time.Now())
				}
			}
		}
		require.Greater(t, len(admitted), 200)
		for i, first := range admitted {
			within := 0
			for _, at := range admitted[i:] {
				if at.Sub(first) < time.Hour {
					within++
				}
			}
			require.LessOrEqual(t, within, 50)
		}
	})
}
