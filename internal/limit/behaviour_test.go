package limit

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func reserve(t testing.TB, l Limiter, a Amounts, rules ...Rule) Decision {
	t.Helper()
	d, err := l.Reserve(t.Context(), Demand{Rules: rules, Amounts: a})
	require.NoError(t, err)
	require.False(t, d.Degraded)
	require.Len(t, d.States, len(rules))
	require.Equal(t, d.Refused < 0, d.Reservation != nil)
	return d
}

func remaining(t testing.TB, l Limiter, rules ...Rule) []int64 {
	t.Helper()
	states, err := l.Peek(t.Context(), rules)
	require.NoError(t, err)
	var all []int64
	for _, s := range states {
		all = append(all, s.Remaining)
	}
	return all
}

func TestADemandIsAdmittedByAllRulesOrCountsNowhere(t *testing.T) {
	test := func(t *testing.T, l Limiter) {
		requests := Rule{Counter: "r", Measure: Requests, Window: Minute, Limit: 10}
		tokens := Rule{Counter: "t", Measure: Tokens, Window: Hour, Limit: 100}
		money := Rule{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1000}
		running := Rule{Counter: "c", Measure: Concurrency, Window: Now, Limit: 2}
		all := []Rule{requests, tokens, money, running}
		want := Amounts{Requests: 1, Tokens: 60, Cost: 100, Concurrency: 1}

		first := reserve(t, l, want, all...)
		require.Equal(t, -1, first.Refused)
		require.Equal(t, []int64{9, 40, 900, 1}, remaining(t, l, all...))
		for i, s := range first.States {
			require.Equal(t, []int64{9, 40, 900, 1}[i], s.Remaining)
		}
		second := reserve(t, l, want, all...)
		require.Equal(t, 1, second.Refused)
		require.InDelta(t, time.Hour, second.RetryAfter, float64(time.Hour)/100)
		require.Equal(t, []int64{9, 40, 900, 1}, remaining(t, l, all...))

		first.Reservation.Settle(Amounts{Requests: 1, Tokens: 10, Cost: 150, Concurrency: 1})
		first.Reservation.Settle(Amounts{Requests: 1, Tokens: 99, Cost: 999, Concurrency: 1})
		flushed(t, l)
		require.Equal(t, []int64{9, 90, 850, 2}, remaining(t, l, all...))
		sound(t, l)
	}
	over(t, test)
	t.Run("cluster", func(t *testing.T) { test(t, newRedis(t, newCluster(t), RedisOptions{})) })
}

func TestWhatIsUsedBeyondTheReservationCounts(t *testing.T) { // pitfall 92
	over(t, func(t *testing.T, l Limiter) {
		r := Rule{Counter: "t", Measure: Tokens, Window: Minute, Limit: 100}
		reserve(t, l, Amounts{Tokens: 10}, r).Reservation.Settle(Amounts{Tokens: 130})
		flushed(t, l)
		require.Equal(t, []int64{0}, remaining(t, l, r))
		require.Equal(t, 0, reserve(t, l, Amounts{Tokens: 1}, r).Refused)
	})
}

func TestAReservationIsSettledOnce(t *testing.T) { // pitfall 93
	over(t, func(t *testing.T, l Limiter) {
		rules := []Rule{
			{Counter: "t", Measure: Tokens, Window: Minute, Limit: 100},
			{Counter: "m", Measure: Cost, Window: CalendarDay, Limit: 100},
			{Counter: "c", Measure: Concurrency, Limit: 100},
		}
		d := reserve(t, l, Amounts{Tokens: 20, Cost: 20, Concurrency: 1}, rules...)
		other := reserve(t, l, Amounts{Tokens: 20, Cost: 20, Concurrency: 1}, rules...)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { d.Reservation.Settle(Amounts{Tokens: 30, Cost: 30, Concurrency: 1}) })
		}
		all.Wait()
		flushed(t, l)
		require.Equal(t, []int64{50, 50, 99}, remaining(t, l, rules...))
		other.Reservation.Settle(Amounts{})
		flushed(t, l)
		require.Equal(t, []int64{70, 70, 100}, remaining(t, l, rules...))
		sound(t, l)
	})
}

func TestOfManyAtOnceOnlyWhatTheBudgetHasIsAdmitted(t *testing.T) { // pitfall 95
	over(t, func(t *testing.T, l Limiter) {
		budget := Rule{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1_000_000_000}
		var mu sync.Mutex
		var all sync.WaitGroup
		admitted := 0
		for range 100 {
			all.Go(func() {
				d, err := l.Reserve(t.Context(), Demand{Rules: []Rule{budget}, Amounts: Amounts{Cost: 110_000_000}})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && d.Reservation != nil {
					admitted++
				}
			})
		}
		all.Wait()
		require.Equal(t, 9, admitted)
	})
}

func TestWithoutRulesAllPass(t *testing.T) { // pitfall 97
	over(t, func(t *testing.T, l Limiter) {
		d := reserve(t, l, Amounts{Requests: 1, Tokens: math.MaxInt64, Cost: math.MaxInt64})
		require.Equal(t, -1, d.Refused)
		require.Zero(t, d.RetryAfter)
		d.Reservation.Settle(Amounts{Cost: math.MaxInt64})
		flushed(t, l)
		require.Equal(t, -1, reserve(t, l, Amounts{Cost: 1}).Refused, "what was used without a rule counts nowhere")
		require.Equal(t, []int64{1, 1, 1}, remaining(t, l, Rule{Measure: Requests, Window: Minute, Limit: 1},
			Rule{Measure: Tokens, Window: Day, Limit: 1}, Rule{Measure: Cost, Window: CalendarMonth, Limit: 1}))
		sound(t, l)
	})
}

func TestARuleThatIsAShadowCountsAndDoesNotRefuse(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		shadow := Rule{Counter: "t", Measure: Tokens, Window: Minute, Limit: 5, Shadow: true}
		enforced := shadow
		enforced.Shadow, enforced.Limit = false, 20
		require.Equal(t, -1, reserve(t, l, Amounts{Tokens: 8}, shadow).Refused)
		require.Equal(t, -1, reserve(t, l, Amounts{Tokens: 8}, shadow, enforced).Refused, "rules of one name share a count")
		require.Equal(t, []int64{0, 4}, remaining(t, l, shadow, enforced))
		d := reserve(t, l, Amounts{Tokens: 8}, shadow, enforced)
		require.Equal(t, 1, d.Refused)
	})
}

func TestTheRefusalThatLastsLongestIsTold(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		second := Rule{Counter: "s", Measure: Requests, Window: Second, Limit: 1}
		day := Rule{Counter: "d", Measure: Requests, Window: Day, Limit: 1}
		running := Rule{Counter: "c", Measure: Concurrency, Limit: 1}
		never := Rule{Counter: "n", Measure: Tokens, Window: Day, Limit: 99}
		want := Amounts{Requests: 1, Concurrency: 1, Tokens: 10}
		reserve(t, l, want, second, running, day, never)

		d := reserve(t, l, want, second, running, day, never)
		require.Equal(t, 2, d.Refused)
		require.Greater(t, d.RetryAfter, 24*time.Hour-time.Second)
		require.LessOrEqual(t, d.RetryAfter, 24*time.Hour*129/128)
		d = reserve(t, l, want, running)
		require.Equal(t, 0, d.Refused)
		require.Positive(t, d.RetryAfter)
		want[Tokens] = 100
		d = reserve(t, l, want, second, never, day, running)
		require.Equal(t, 1, d.Refused)
		require.Zero(t, d.RetryAfter, "time does not help")
	})
}

func TestRetryAfterIsWhenTheAmountFits(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		r := Rule{Counter: "t", Measure: Tokens, Window: Second, Limit: 100}
		first := time.Now()
		reserve(t, l, Amounts{Tokens: 40}, r)
		<-time.After(300 * time.Millisecond)
		second := time.Now()
		reserve(t, l, Amounts{Tokens: 60}, r)
		fits := func(amount int64) (time.Time, Decision) {
			d := reserve(t, l, Amounts{Tokens: amount}, r)
			require.Equal(t, 0, d.Refused)
			return time.Now().Add(d.RetryAfter), d
		}
		at, _ := fits(41)
		require.True(t, at.After(second.Add(time.Second)), "the first 40 are not enough")
		at, d := fits(40)
		require.True(t, at.After(first.Add(time.Second)))
		require.Less(t, d.RetryAfter, d.States[0].Reset)
		<-time.After(d.RetryAfter)
		d = reserve(t, l, Amounts{Tokens: 40}, r)
		require.Equal(t, -1, d.Refused)
		<-time.After(d.States[0].Reset)
		require.Equal(t, []int64{100}, remaining(t, l, r))
	})
}

func TestAFloodReachesTheLimitWindowAfterWindow(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		r := Rule{Counter: "t", Measure: Requests, Window: Second, Limit: 100}
		var f flood
		for start := time.Now(); time.Since(start) < 5*time.Second/2; {
			from := time.Now()
			d, err := l.Reserve(t.Context(), Demand{Rules: []Rule{r}, Amounts: Amounts{Requests: 1}})
			if !f.note(t, from, d, err) {
				<-time.After(min(d.RetryAfter, 4*time.Millisecond))
				continue
			}
			d.Reservation.Settle(Amounts{Requests: 1})
		}
		require.LessOrEqual(t, most(f.store), 100)
		f.neverRefusedBelow(t, 99)
	})
}

func TestABudgetIsRaisedInItsPeriodOnly(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		day := Rule{Counter: "m", Measure: Cost, Window: CalendarDay, Limit: 1000}
		month := Rule{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1000}
		now := time.Now()
		require.NoError(t, l.Raise(t.Context(), "m", CalendarDay, now, 300))
		require.NoError(t, l.Raise(t.Context(), "m", CalendarDay, now, 200))
		require.NoError(t, l.Raise(t.Context(), "m", CalendarDay, now.AddDate(0, 0, -1), 900))
		require.NoError(t, l.Raise(t.Context(), "m", CalendarMonth, now.AddDate(0, -2, 0), 900))
		require.NoError(t, l.Raise(t.Context(), "m", Minute, now, 900))
		require.Equal(t, []int64{700, 1000}, remaining(t, l, day, month))
		d := reserve(t, l, Amounts{Cost: 600}, day)
		require.Equal(t, []int64{100}, remaining(t, l, day), "reserved and spent are apart")
		require.NoError(t, l.Raise(t.Context(), "m", CalendarDay, now, 350))
		d.Reservation.Settle(Amounts{Cost: 50})
		flushed(t, l)
		require.Equal(t, []int64{600}, remaining(t, l, day))
		refused := reserve(t, l, Amounts{Cost: 601}, day)
		require.Equal(t, 0, refused.Refused)
		require.InDelta(t, CalendarDay.left(time.Now()), refused.RetryAfter, float64(5*time.Second))
		sound(t, l)
	})
}

func TestAmountsBelowZeroAreNone(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		r := Rule{Counter: "t", Measure: Tokens, Window: Minute, Limit: 10}
		reserve(t, l, Amounts{Tokens: 4}, r)
		reserve(t, l, Amounts{Tokens: -50}, r).Reservation.Settle(Amounts{Tokens: -50})
		flushed(t, l)
		require.Equal(t, []int64{6}, remaining(t, l, r))
	})
}

func TestLargeAmountsOfMoneyAreExact(t *testing.T) {
	over(t, func(t *testing.T, l Limiter) {
		million := int64(1_000_000_000_000_000)
		r := Rule{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 3 * million}
		w := Rule{Counter: "m", Measure: Cost, Window: Day, Limit: math.MaxInt64}
		reserve(t, l, Amounts{Cost: million}, r, w).Reservation.Settle(Amounts{Cost: million + 1})
		flushed(t, l)
		require.Equal(t, []int64{2*million - 1}, remaining(t, l, r))
		require.Equal(t, 0, reserve(t, l, Amounts{Cost: 2 * million}, r).Refused)
		require.Equal(t, -1, reserve(t, l, Amounts{Cost: 2*million - 1}, r).Refused)
	})
}
