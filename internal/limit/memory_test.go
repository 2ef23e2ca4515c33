package limit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ofKey are the rules of a key as an installation may have them.
func ofKey(key int) []Rule {
	name := fmt.Sprintf("key/key_01JD%022d/", key)
	return []Rule{
		{Counter: name + "requests/minute", Measure: Requests, Window: Minute, Limit: 1 << 40},
		{Counter: name + "tokens/minute", Measure: Tokens, Window: Minute, Limit: 1 << 40},
		{Counter: name + "tokens/day", Measure: Tokens, Window: Day, Limit: 1 << 40},
		{Counter: name + "cost/month", Measure: Cost, Window: CalendarMonth, Limit: 1 << 60},
	}
}

func ofKeys(n int) [][]Rule {
	all := make([][]Rule, n)
	for i := range all {
		all[i] = ofKey(i)
	}
	return all
}

func counters(l Limiter) int {
	n := 0
	m := l.(*memory)
	for i := range m.shards {
		n += m.shards[i].counters
	}
	return n
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestIdleKeysCostLittleAndThenNothing(t *testing.T) { // pitfall 117
	synctest.Test(t, func(t *testing.T) {
		const keys = 50_000
		all := ofKeys(keys)
		before := heap()
		l := NewMemory(Options{})
		use := func(rules []Rule) {
			d := reserve(t, l, Amounts{Requests: 1, Tokens: 100, Cost: 1000}, rules...)
			d.Reservation.Settle(Amounts{Requests: 1, Tokens: 50, Cost: 500})
		}
		for _, rules := range all {
			use(rules)
		}
		require.Equal(t, 4*keys, counters(l))
		other := []Rule{{Counter: "other", Measure: Requests, Window: Second, Limit: 1000}}
		idle := func(d time.Duration) int64 {
			<-time.After(d)
			for range 2 * shardCount {
				<-time.After(sweepEvery)
				use(other)
			}
			return heap() - before
		}
		require.Less(t, idle(2*time.Minute), int64(16<<20), "days and months still count")
		require.Equal(t, 2*keys+1, counters(l))
		require.Less(t, idle(26*time.Hour), int64(7<<20), "months still count")
		require.Equal(t, keys+1, counters(l))
		require.Less(t, idle(32*24*time.Hour), int64(1<<20))
		require.Equal(t, 1, counters(l))
		runtime.KeepAlive(all)
	})
}

func TestDaysOfTrafficStayFlat(t *testing.T) { // pitfall 117
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(Options{})
		random := rand.New(rand.NewPCG(1, 1))
		most := 0
		for i := range 40_000 { // five days, in which names never come again
			<-time.After(time.Duration(random.IntN(20)) * time.Second)
			rules := []Rule{
				{Counter: fmt.Sprint("user/", i), Measure: Requests, Window: Minute, Limit: 10},
				{Counter: "organization", Measure: Tokens, Window: Day, Limit: 1 << 50},
			}
			d := reserve(t, l, Amounts{Requests: 1, Tokens: 10}, rules...)
			d.Reservation.Settle(Amounts{Requests: 1, Tokens: int64(random.IntN(20))})
			most = max(most, counters(l))
		}
		require.Less(t, most, 100)
		sound(t, l)
	})
}

func TestARefusalMakesNoCounter(t *testing.T) {
	l := NewMemory(Options{})
	rules := []Rule{{Counter: "a", Window: Minute, Limit: 1}, {Counter: "b", Window: Minute, Limit: 0}}
	require.Equal(t, 1, reserve(t, l, Amounts{Requests: 1}, rules...).Refused)
	_, err := l.Peek(t.Context(), rules)
	require.NoError(t, err)
	require.Zero(t, counters(l))
}

func TestACounterThatIsEvictedIsSettledInItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(Options{}).(*memory)
		r := Rule{Counter: "t", Measure: Tokens, Window: Minute, Limit: 100}
		d := reserve(t, l, Amounts{Tokens: 10}, r)
		<-time.After(time.Hour)
		for range shardCount {
			<-time.After(sweepEvery)
			l.sweep(l.now())
		}
		require.Zero(t, counters(l))
		d.Reservation.Settle(Amounts{Tokens: 40})
		require.Equal(t, []int64{70}, remaining(t, l, r))
	})
}

func TestABudgetBeginsAgainWithItsPeriodAndKeepsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at the start of 2000
		l := NewMemory(Options{})
		day := Rule{Counter: "d", Measure: Cost, Window: CalendarDay, Limit: 100}
		month := Rule{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 100}
		<-time.After(23 * time.Hour)
		reserve(t, l, Amounts{Cost: 30}, day, month).Reservation.Settle(Amounts{Cost: 30})
		running := reserve(t, l, Amounts{Cost: 50}, day, month)
		require.Equal(t, time.Hour, running.States[0].Reset)
		require.Equal(t, 30*24*time.Hour+time.Hour, running.States[1].Reset)
		<-time.After(time.Hour)
		require.Equal(t, []int64{50, 20}, remaining(t, l, day, month))
		running.Reservation.Settle(Amounts{Cost: 10})
		require.Equal(t, []int64{90, 60}, remaining(t, l, day, month))
		<-time.After(30 * 24 * time.Hour)
		require.Equal(t, []int64{100, 100}, remaining(t, l, day, month))
	})
}

func TestAWallClockThatIsSetBackLetsNothingMoreIn(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 10, 0, time.UTC)
	l := NewMemory(Options{Clock: func() time.Time { return now }})
	rules := []Rule{{Counter: "a", Window: Minute, Limit: 1}, {Counter: "b", Measure: Cost, Window: CalendarMonth,
		Limit: 1}}
	want := Amounts{Requests: 1, Cost: 1}
	reserve(t, l, want, rules...).Reservation.Settle(want)
	now = now.Add(-time.Minute)
	require.GreaterOrEqual(t, reserve(t, l, want, rules...).Refused, 0)
	require.Equal(t, 0, reserve(t, l, want, rules[:1]...).Refused)
	require.Equal(t, 0, reserve(t, l, want, rules[1:]...).Refused)
	sound(t, l)
}

func TestMemoryIsSafeForManyAtOnce(t *testing.T) {
	l := NewMemory(Options{})
	all := ofKeys(20)
	running := Rule{Counter: "all", Measure: Concurrency, Limit: 30}
	var wait sync.WaitGroup
	for g := range 64 {
		random := rand.New(rand.NewPCG(uint64(g), 0))
		wait.Go(func() {
			for range 300 {
				rules := append(append([]Rule{running}, all[random.IntN(20)]...), all[random.IntN(20)]...)
				random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
				d, err := l.Reserve(t.Context(), Demand{Rules: rules, Amounts: Amounts{Requests: 1, Tokens: 5, Cost: 5,
					Concurrency: 1}})
				if err == nil && d.Reservation != nil {
					d.Reservation.Settle(Amounts{Tokens: int64(random.IntN(10))})
				}
			}
		})
	}
	wait.Wait()
	require.Equal(t, []int64{30}, remaining(t, l, running))
	sound(t, l)
}

// BenchmarkMemory is a request of one of 100,000 keys, with what its end settles.
func BenchmarkMemory(b *testing.B) {
	all := ofKeys(100_000)
	l := NewMemory(Options{})
	request := func(rules []Rule) {
		d, err := l.Reserve(b.Context(), Demand{Rules: rules, Amounts: Amounts{Requests: 1, Tokens: 100, Cost: 1000}})
		if err != nil || d.Reservation == nil {
			b.Fatal(err)
		}
		d.Reservation.Settle(Amounts{Requests: 1, Tokens: 50, Cost: 500})
	}
	for _, rules := range all {
		request(rules)
	}
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			request(all[rand.IntN(len(all))])
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				request(all[rand.IntN(len(all))])
			}
		})
	})
}
