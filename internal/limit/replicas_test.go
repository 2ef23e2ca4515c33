package limit

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/redistest"
)

// A flood is what many clients of several replicas were admitted.
type flood struct {
	mu       sync.Mutex
	store    []happened // by the store
	local    []happened // by replicas on their own
	refused  []happened
	unserved int // for the store was away
}

// ask has 200 clients ask replicas for one request each, again and again, until they are done.
func (f *flood) ask(t *testing.T, replicas []*Redis, rules []Rule, done <-chan struct{}) {
	var all sync.WaitGroup
	for i := range 200 {
		l := replicas[i%len(replicas)]
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				from := time.Now()
				d, err := l.Reserve(t.Context(), Demand{Rules: rules, Amounts: Amounts{Requests: 1, Tokens: 10, Concurrency: 1}})
				if !f.note(t, from, d, err) {
					<-time.After(4 * time.Millisecond)
				}
				if d.Reservation != nil {
					<-time.After(time.Millisecond)
					d.Reservation.Settle(Amounts{Requests: 1, Tokens: 10})
				}
			}
		})
	}
	all.Wait()
}

func (f *flood) note(t *testing.T, from time.Time, d Decision, err error) (admitted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := happened{from, time.Now(), 1}
	switch {
	case errors.Is(err, ErrStore):
		f.unserved++
	case err != nil:
		t.Error(err)
	case d.Reservation == nil:
		f.refused = append(f.refused, h)
	case d.Degraded:
		f.local = append(f.local, h)
		return true
	default:
		f.store = append(f.store, h)
		return true
	}
	return false
}

// most returns the most that was surely admitted within a second, wherever it begins.
func most(all ...[]happened) int {
	log := slices.Concat(all...)
	slices.SortFunc(log, func(a, b happened) int { return a.from.Compare(b.from) })
	most := 0
	for i, first := range log {
		n := 0
		for _, h := range log[i:] {
			if h.from.Sub(first.from) >= time.Second {
				break
			}
			if h.to.Sub(first.from) < time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// neverRefusedBelow checks that whenever somebody was refused, at least so much had been admitted within the time in
// which a limit of a second is free again: what a flood can get, it gets, on a machine that is as slow as it likes.
func (f *flood) neverRefusedBelow(t *testing.T, amount int) {
	require.NotEmpty(t, f.refused)
	const period = time.Second * countedSlots / slotsPerWindow
	begun, ended := make([]int64, len(f.store)), make([]int64, len(f.store))
	for i, h := range f.store {
		begun[i], ended[i] = h.from.UnixNano(), h.to.UnixNano()
	}
	slices.Sort(begun)
	slices.Sort(ended)
	for _, h := range f.refused {
		before, _ := slices.BinarySearch(ended, h.from.Add(-period-time.Millisecond).UnixNano())
		until, _ := slices.BinarySearch(begun, h.to.UnixNano()+1)
		require.GreaterOrEqual(t, until-before, amount)
	}
}

func replicas(t *testing.T, server *redistest.Server, o RedisOptions) []*Redis {
	var all []*Redis
	for range 4 {
		all = append(all, newRedis(t, server, o))
	}
	return all
}

const floodLimit = 200

func floodRules() []Rule {
	return []Rule{
		{Counter: "r", Measure: Requests, Window: Second, Limit: floodLimit},
		{Counter: "t", Measure: Tokens, Window: Minute, Limit: 1 << 40},
		{Counter: "c", Measure: Concurrency, Limit: 1000},
	}
}

// allBack waits until all replicas ask the store again.
func allBack(t *testing.T, replicas []*Redis) {
	for _, l := range replicas {
		require.Eventually(t, func() bool { return !l.away.Load() }, 10*time.Second, 5*time.Millisecond)
	}
}

func TestReplicasTogetherAdmitTheLimit(t *testing.T) { // pitfall 90
	t.Parallel()
	server := redistest.Start(t)
	all := replicas(t, server, RedisOptions{})
	var f flood
	f.ask(t, all, floodRules(), after(5*time.Second/2))
	require.LessOrEqual(t, most(f.store), floodLimit)
	f.neverRefusedBelow(t, floodLimit*99/100)
	require.Zero(t, len(f.local)+f.unserved)
	for _, l := range all {
		flushed(t, l)
	}
	require.Equal(t, []int64{1000}, remaining(t, all[0], floodRules()[2]))
	sound(t, all[0])
}

// after returns a channel that is closed after a time.
func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// interrupted floods replicas, and kills and starts the server meanwhile.
func interrupted(t *testing.T, server *redistest.Server, all []*Redis) *flood {
	var f flood
	var clients sync.WaitGroup
	done := make(chan struct{})
	clients.Go(func() { f.ask(t, all, floodRules(), done) })
	<-time.After(700 * time.Millisecond)
	server.Stop()
	<-time.After(400 * time.Millisecond)
	server.Restart(t)
	allBack(t, all)
	since := time.Now()
	<-after(time.Second*countedSlots/slotsPerWindow + time.Second/4)
	close(done)
	clients.Wait()
	for _, l := range all {
		flushed(t, l)
	}
	sound(t, all[0])
	require.Equal(t, []int64{1000}, remaining(t, all[0], floodRules()[2]), "nothing is held any more")
	late := slices.DeleteFunc(slices.Clone(f.store), func(h happened) bool { return h.to.Before(since) })
	require.NotEmpty(t, late, "it is used again")
	return &f
}

func TestAStoreThatIsKilledAndPersistsHoldsTheLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Persistent()...)
	f := interrupted(t, server, replicas(t, server, RedisOptions{}))
	require.LessOrEqual(t, most(f.store), floodLimit)
	require.Empty(t, f.local)
	require.NotZero(t, f.unserved)
}

func TestAStoreThatComesBackEmptyIsToldWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := interrupted(t, server, replicas(t, server, RedisOptions{Liveness: 600 * time.Millisecond}))
	require.LessOrEqual(t, most(f.store), floodLimit)
	require.Empty(t, f.local)
}

func TestWhileTheStoreIsKilledReplicasAdmitTheirShares(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := interrupted(t, server, replicas(t, server, RedisOptions{Liveness: 600 * time.Millisecond, FailOpen: true,
		Share: 0.25}))
	require.Zero(t, f.unserved)
	require.NotEmpty(t, f.local)
	require.LessOrEqual(t, most(f.local), floodLimit)
	require.LessOrEqual(t, most(f.store, f.local), 3*floodLimit)
}
