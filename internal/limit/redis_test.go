package limit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/redistest"
)

// A droppingProxy passes what it receives on to a server. From the first call of a chosen script on, it passes no
// answer back. It does not begin with just any answer: a renewal may come at any time.
type droppingProxy struct {
	URL  string
	from atomic.Pointer[script] // everything: it has begun
	open sync.Map               // of net.Conn
}

var everything script

func newDroppingProxy(t testing.TB, server *redistest.Server) *droppingProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &droppingProxy{URL: "redis://" + l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "redis://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			d.open.Store(near, far)
			all.Go(func() { _, _ = io.Copy(io.MultiWriter(calls{d}, far), near); _ = far.Close() })
			all.Go(func() { _, _ = io.Copy(io.MultiWriter(answers{d}, near), far); _ = near.Close() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		d.hangUp()
		all.Wait()
	})
	return d
}

// calls sees the calls, each before the server has it.
type calls struct{ *droppingProxy }

func (c calls) Write(p []byte) (int, error) {
	if from := c.from.Load(); from != nil && bytes.Contains(p, []byte(from.hash)) {
		c.from.CompareAndSwap(from, &everything)
	}
	return len(p), nil
}

// answers sees the answers. Its error ends the connection before the client has the answer.
type answers struct{ *droppingProxy }

func (a answers) Write(p []byte) (int, error) {
	if a.from.Load() == &everything {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func (d *droppingProxy) hangUp() {
	d.open.Range(func(near, far any) bool {
		_ = near.(net.Conn).Close()
		_ = far.(net.Conn).Close()
		d.open.Delete(near)
		return true
	})
}

func TestASettlementCountsOnceThoughTheRepliesAreLost(t *testing.T) { // pitfall 93
	t.Parallel()
	server := redistest.Start(t)
	proxy := newDroppingProxy(t, server)
	l := newRedis(t, &redistest.Server{URL: proxy.URL}, RedisOptions{})
	direct := newRedis(t, server, RedisOptions{})
	rules := []Rule{
		{Counter: "t", Measure: Tokens, Window: Hour, Limit: 1000},
		{Counter: "u", Measure: Tokens, Window: Hour, Limit: 1000},
		{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1000},
		{Counter: "c", Measure: Concurrency, Limit: 10},
	}
	reserve(t, l, Amounts{Tokens: 100, Cost: 100, Concurrency: 1}, rules...).Reservation.Settle(Amounts{})
	flushed(t, l) // the server knows the scripts
	first := reserve(t, l, Amounts{Tokens: 100, Cost: 100, Concurrency: 1}, rules...)
	second := reserve(t, l, Amounts{Tokens: 100, Cost: 100, Concurrency: 1}, rules...)
	proxy.from.Store(&l.scripts.apply)
	first.Reservation.Settle(Amounts{Tokens: 40, Cost: 140})
	require.Eventually(t, l.away.Load, 5*time.Second, time.Millisecond)
	second.Reservation.Settle(Amounts{Tokens: 150, Cost: 60})
	require.Equal(t, []int64{860, 860, 760, 9}, remaining(t, direct, rules...),
		"it has been counted, and its sender does not know")
	proxy.from.Store(nil)
	flushed(t, l)
	require.Equal(t, []int64{810, 810, 800, 10}, remaining(t, direct, rules...))
	sound(t, direct)
}

func TestAReservationOfWhichTheReplyIsLostHoldsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := newDroppingProxy(t, server)
	l := newRedis(t, &redistest.Server{URL: proxy.URL}, RedisOptions{})
	direct := newRedis(t, server, RedisOptions{})
	rules := []Rule{
		{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1000},
		{Counter: "c", Measure: Concurrency, Limit: 10},
	}
	want := Amounts{Cost: 100, Concurrency: 1}
	running := reserve(t, l, want, rules...)
	proxy.from.Store(&l.scripts.reserve)
	_, err := l.Reserve(t.Context(), Demand{Rules: rules, Amounts: want})
	require.ErrorIs(t, err, ErrStore)
	require.Equal(t, []int64{800, 8}, remaining(t, direct, rules...))
	proxy.from.Store(nil)
	flushed(t, l)
	require.Equal(t, []int64{900, 9}, remaining(t, direct, rules...))
	require.Eventually(t, func() bool { return !l.away.Load() }, 5*time.Second, time.Millisecond)
	reserve(t, l, want, rules...).Reservation.Settle(Amounts{})
	running.Reservation.Settle(Amounts{})
	flushed(t, l)
	require.Equal(t, []int64{1000, 10}, remaining(t, direct, rules...))
	require.Eventually(t, func() bool {
		renewed, ended, _ := l.unsettled.leases()
		return len(renewed) == 1 && len(ended) == 0
	}, 5*time.Second, time.Millisecond, "the old lease ends with its requests")
}

func TestWhatAProcessHeldVanishesAfterItsEnd(t *testing.T) { // pitfalls 90 and 95
	t.Parallel()
	server := redistest.Start(t)
	// It is renewed each 500 ms: a busy machine may delay one of the living for a second.
	liveness := RedisOptions{Liveness: 1500 * time.Millisecond}
	killed, other := newRedis(t, server, liveness), newRedis(t, server, liveness)
	rules := []Rule{
		{Counter: "m", Measure: Cost, Window: CalendarDay, Limit: 100},
		{Counter: "c", Measure: Concurrency, Limit: 2},
	}
	want := Amounts{Cost: 40, Concurrency: 1}
	reserve(t, killed, want, rules...)
	mine := reserve(t, other, want, rules...)
	require.Equal(t, 1, reserve(t, other, Amounts{Cost: 20, Concurrency: 1}, rules...).Refused)
	<-time.After(3 * liveness.Liveness)
	require.Equal(t, []int64{20, 0}, remaining(t, other, rules...), "those of the living do not vanish")
	killed.stop() // as a kill does, it renews nothing from here on
	<-killed.done
	require.Eventually(t, func() bool { return remaining(t, other, rules...)[1] == 1 }, 5*time.Second,
		10*time.Millisecond)
	require.Equal(t, []int64{60, 1}, remaining(t, other, rules...))
	mine.Reservation.Settle(Amounts{Cost: 10})
	flushed(t, other)
	require.Equal(t, []int64{90, 2}, remaining(t, other, rules...))
	sound(t, other)
}

func TestAStoreThatForgotIsToldWhatItCounted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := newRedis(t, server, RedisOptions{Liveness: time.Second}), newRedis(t, server,
		RedisOptions{Liveness: time.Second})
	rules := []Rule{
		{Counter: "t", Measure: Tokens, Window: Hour, Limit: 1000},
		{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1000},
		{Counter: "c", Measure: Concurrency, Limit: 9},
	}
	want := Amounts{Tokens: 100, Cost: 100, Concurrency: 1}
	ofOne, ofTwo := reserve(t, one, want, rules...), reserve(t, two, want, rules...)
	reserve(t, two, want, rules...).Reservation.Settle(Amounts{Tokens: 10, Cost: 110})
	flushed(t, two)
	before := remaining(t, one, rules...)
	require.Equal(t, []int64{790, 690, 7}, before)
	require.NoError(t, one.client.FlushAll(t.Context()).Err())

	_, err := one.Reserve(t.Context(), Demand{Rules: rules, Amounts: want})
	require.ErrorIs(t, err, ErrStore, "until all have told what they know, it decides nothing")
	allBack(t, []*Redis{one, two})
	flushed(t, one)
	flushed(t, two)
	newcomer := newRedis(t, server, RedisOptions{})
	require.Equal(t, before, remaining(t, newcomer, rules...))
	ofOne.Reservation.Settle(Amounts{Tokens: 50, Cost: 50})
	ofTwo.Reservation.Settle(Amounts{Tokens: 150, Cost: 50})
	flushed(t, one)
	flushed(t, two)
	require.Equal(t, []int64{790, 790, 9}, remaining(t, newcomer, rules...))
	sound(t, newcomer)
}

func TestNoRequestWaitsForAStoreThatHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := newRedis(t, server, RedisOptions{Timeout: 200 * time.Millisecond})
	rule := Rule{Counter: "r", Window: Minute, Limit: 1000}
	served := func() bool {
		_, err := l.Reserve(t.Context(), Demand{Rules: []Rule{rule}, Amounts: Amounts{Requests: 1}})
		return err == nil
	}
	require.Eventually(t, served, 5*time.Second, 5*time.Millisecond)
	server.Pause(t)
	start := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 100 {
				if served() {
					t.Error("served by a store that hangs")
				}
			}
		})
	}
	all.Wait()
	require.Less(t, time.Since(start), 10*time.Second, "half of what it takes if every request waits")
	server.Resume(t)
	require.Eventually(t, served, 5*time.Second, 5*time.Millisecond)
}

func TestWhileTheStoreIsAwayTheReplicaAdmitsItsShareOrNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Persistent()...)
	open := newRedis(t, server, RedisOptions{FailOpen: true, Share: 0.25})
	closed := newRedis(t, server, RedisOptions{})
	rules := []Rule{
		{Counter: "r", Measure: Requests, Window: Minute, Limit: 20},
		{Counter: "t", Measure: Tokens, Window: Hour, Limit: 1000},
		{Counter: "m", Measure: Cost, Window: CalendarMonth, Limit: 1000},
		{Counter: "c", Measure: Concurrency, Limit: 2},
	}
	want := Amounts{Requests: 1, Tokens: 10, Cost: 10, Concurrency: 1}
	ask := func(l Limiter) (Decision, error) { return l.Reserve(t.Context(), Demand{Rules: rules, Amounts: want}) }
	before, err := ask(open)
	require.NoError(t, err)
	server.Stop()
	_, err = ask(closed)
	require.ErrorIs(t, err, ErrStore)
	shadow := rules[0]
	shadow.Shadow = true
	for _, none := range [][]Rule{nil, {shadow}} { // pitfall 97
		d, err := closed.Reserve(t.Context(), Demand{Rules: none, Amounts: want})
		require.NoError(t, err, "nothing that could refuse it")
		require.Equal(t, -1, d.Refused)
	}
	_, err = closed.Peek(t.Context(), rules)
	require.Error(t, err)
	require.Error(t, closed.Raise(t.Context(), "m", CalendarMonth, time.Now(), 5))
	for range 4 {
		d, err := ask(open)
		require.NoError(t, err)
		require.True(t, d.Degraded)
		require.Equal(t, -1, d.Refused)
		busy, err := ask(open)
		require.NoError(t, err)
		require.Equal(t, 3, busy.Refused, "a share is at least 1, and no more than it should be")
		d.Reservation.Settle(Amounts{Requests: 1, Tokens: 20, Cost: 30})
	}
	last, err := ask(open)
	require.NoError(t, err)
	last.Reservation.Settle(Amounts{Requests: 1, Tokens: 20, Cost: 30})
	d, err := ask(open)
	require.NoError(t, err)
	require.Equal(t, 0, d.Refused)
	require.True(t, d.Degraded)
	before.Reservation.Settle(Amounts{Requests: 1, Tokens: 15, Cost: 15})
	server.Restart(t)
	require.Eventually(t, func() bool { return !open.away.Load() && !closed.away.Load() }, 10*time.Second,
		5*time.Millisecond)
	flushed(t, open)
	require.Equal(t, []int64{14, 885, 835, 2}, remaining(t, closed, rules...), "what was admitted meanwhile is told")
	sound(t, closed)
}

func TestAClientThatIsGoneIsNoFaultOfTheStore(t *testing.T) {
	t.Parallel()
	l := newRedis(t, redistest.Start(t), RedisOptions{})
	rule := Rule{Counter: "c", Measure: Concurrency, Limit: 2}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := l.Reserve(gone, Demand{Rules: []Rule{rule}, Amounts: Amounts{Concurrency: 1}})
	require.NoError(t, err)
	require.Equal(t, []int64{1}, remaining(t, l, rule))
	d.Reservation.Settle(Amounts{})
	flushed(t, l)
	require.Equal(t, []int64{2}, remaining(t, l, rule))
}

func TestInstallationsShareAServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := newRedis(t, server, RedisOptions{Prefix: "a"}), newRedis(t, server, RedisOptions{Prefix: "b"})
	rule := Rule{Counter: "r", Window: Minute, Limit: 1}
	reserve(t, a, Amounts{Requests: 1}, rule)
	require.Equal(t, []int64{0}, remaining(t, a, rule))
	require.Equal(t, []int64{1}, remaining(t, b, rule))
	keys, err := a.client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		require.True(t, strings.HasPrefix(key, "{a}:") || strings.HasPrefix(key, "{b}:"), key)
	}
}

func TestClosingGivesBackWhatIsHeldAndTellsWhatIsOwed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := OpenRedis(server.URL)
	require.NoError(t, err)
	defer client.Close()
	l := NewRedis(client, RedisOptions{Timeout: 2 * time.Second})
	rules := []Rule{{Counter: "t", Measure: Tokens, Window: Hour, Limit: 100},
		{Counter: "c", Measure: Concurrency, Limit: 2}}
	reserve(t, l, Amounts{Tokens: 10, Concurrency: 1}, rules...)
	reserve(t, l, Amounts{Tokens: 10, Concurrency: 1}, rules...).Reservation.Settle(Amounts{Tokens: 5})
	require.NoError(t, l.Close(context.Background()))
	require.Equal(t, []int64{85, 2}, remaining(t, newRedis(t, server, RedisOptions{}), rules...))
}

func TestTheClientIsOfTheKindThatTheURLSays(t *testing.T) {
	for address, want := range map[string]string{
		"redis://user:secret@127.0.0.1:1/0":                            "*redis.Client",
		"rediss://127.0.0.1:1":                                         "*redis.Client",
		"unix:///run/redis.sock":                                       "*redis.Client",
		"redis://127.0.0.1:1?addr=127.0.0.1:2&addr=127.0.0.1:3":        "*redis.ClusterClient",
		"redis://127.0.0.1:1?master_name=m&addr=127.0.0.1:2":           "*redis.Client",
		"http://127.0.0.1":                                             "",
		"redis://user:secret@127.0.0.1:1/%zz":                          "",
		"redis://user:secret@127.0.0.1:port?addr=127.0.0.1:2":          "",
		"redis://user:secret@127.0.0.1:1?addr=127.0.0.1:2&nonsense=se": "",
	} {
		client, err := OpenRedis(address)
		if want == "" {
			require.Error(t, err, address)
			require.NotContains(t, err.Error(), "secret")
			continue
		}
		require.NoError(t, err, address)
		require.Equal(t, want, fmt.Sprintf("%T", client), address)
		require.NoError(t, client.Close())
	}
}

// BenchmarkRedis is a request of four rules on loopback, with what its end settles in the background.
func BenchmarkRedis(b *testing.B) {
	l := newRedis(b, redistest.Start(b), RedisOptions{})
	all := ofKeys(1000)
	took := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		d := reserve(b, l, Amounts{Requests: 1, Tokens: 100, Cost: 1000}, all[len(took)%len(all)]...)
		took = append(took, time.Since(start))
		d.Reservation.Settle(Amounts{Requests: 1, Tokens: 50, Cost: 500})
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}
