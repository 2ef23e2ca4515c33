package respcache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/respcache"
)

// A process is one of several with one Redis. Its clients send equal requests.
type process struct {
	*respcache.Cache
	key    respcache.Key
	remote *respcache.Redis
	client redis.UniversalClient
	now    time.Time
	maxAge time.Duration

	asking atomic.Int64 // how many clients have begun
}

func processes(t *testing.T, url string, n int, o respcache.RedisOptions) []*process {
	var all []*process
	for range n {
		remote, client := store(t, url, o)
		c := compile(t, remote, &configv1.ResponseCache{Name: "c"})[0]
		all = append(all, &process{Cache: c, key: c.Key(question(`{}`)), remote: remote, client: client, now: time.Now(),
			maxAge: time.Hour})
	}
	return all
}

// ask returns the answer, or sends a request: with the flight that it leads, or without one.
func (p *process) ask(ctx context.Context) (a *respcache.Answer, f *respcache.Flight, sends bool) {
	p.asking.Add(1)
	for {
		a, f, leads := p.Ask(p.key, p.now, p.maxAge)
		switch {
		case a != nil:
			return a, nil, false
		case leads:
			a, _ = f.Fetch(ctx, p.now, p.maxAge)
			if a != nil {
				f.End(a, false)
			}
			return a, f, a == nil
		}
		a, again := f.Wait(ctx)
		if a != nil || !again {
			return a, nil, a == nil
		}
	}
}

// A sender is a client whose request goes out.
type sender struct {
	*process
	flight *respcache.Flight
}

// A stampede is what became of many equal requests to several processes.
type stampede struct {
	sent chan sender
	got  chan string
	all  sync.WaitGroup
}

const each = 25

func stampedeOf(ctx context.Context, all []*process) *stampede {
	s := &stampede{sent: make(chan sender, each*len(all)), got: make(chan string, each*len(all))}
	for _, p := range all {
		for range each {
			s.all.Go(func() {
				switch a, f, sends := p.ask(ctx); {
				case sends:
					s.sent <- sender{p, f}
				default:
					s.got <- string(a.Body)
				}
			})
		}
	}
	return s
}

// lands keeps the answer of a sender.
func (s sender) lands(body string) {
	a := &respcache.Answer{At: s.now, Body: []byte(body)}
	s.Keep(s.key, a)
	s.flight.End(a, false)
}

// TestOneOfAllProcessesAsks: 100 equal requests to four processes at once.
func TestOneOfAllProcessesAsks(t *testing.T) {
	for name, c := range map[string]struct {
		first func(sender)
		sent  int // how many go out
	}{
		"the answer is for all":   {func(s sender) { s.lands("words") }, 1},
		"the first fails":         {func(s sender) { s.flight.End(nil, true) }, 2},
		"its answer is not kept":  {func(s sender) { s.flight.End(nil, false) }, 4 * each},
		"its lease was evicted":   {func(s sender) { s.client.FlushAll(context.Background()) }, 2},
		"another keeps an answer": {func(s sender) { s.Keep(s.key, words(s.now)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := processes(t, redistest.Start(t).URL, 4, respcache.RedisOptions{})
			s := stampedeOf(t.Context(), all)
			first := <-s.sent
			require.Eventually(t, func() bool { return asking(all) == 4*each }, 10*time.Second, time.Millisecond)
			require.Empty(t, s.sent, "one goes out")
			c.first(first)
			if c.sent == 2 {
				second := <-s.sent
				second.lands("words")
			}
			first.flight.End(words(first.now), false)
			s.all.Wait()
			require.Equal(t, c.sent, 4*each-len(s.got))
			for range len(s.got) {
				require.Equal(t, "words", <-s.got)
			}
		})
	}
}

func words(now time.Time) *respcache.Answer { return &respcache.Answer{At: now, Body: []byte("words")} }

func asking(all []*process) (n int64) {
	for _, p := range all {
		n += p.asking.Load()
	}
	return n
}

// A process that dies does not end its lease, and renews it no more.
func TestAProcessThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	all := processes(t, redistest.Start(t).URL, 4, respcache.RedisOptions{Lease: 300 * time.Millisecond,
		Failed: func() {}})
	_, flight, sends := all[0].ask(t.Context())
	require.True(t, sends)
	s := stampedeOf(t.Context(), all[1:])
	name := leaseName(t, all[1].client)
	longest := func() time.Duration { return all[1].client.PTTL(t.Context(), name).Val() }
	for range 3 { // it is renewed
		require.Eventually(t, func() bool { return longest() < 250*time.Millisecond }, 10*time.Second, time.Millisecond)
		require.Eventually(t, func() bool { return longest() > 250*time.Millisecond }, 10*time.Second, time.Millisecond)
	}
	require.Empty(t, s.sent)
	require.NoError(t, all[0].client.Close())
	(<-s.sent).lands("words")
	s.all.Wait()
	require.Len(t, s.got, 3*each-1)
	flight.End(nil, true)
}

// leaseName waits for a lease, and returns its name.
func leaseName(t *testing.T, client redis.UniversalClient) (name string) {
	require.Eventually(t, func() bool {
		names := client.Keys(t.Context(), "*:flight").Val()
		if len(names) == 1 {
			name = names[0]
		}
		return len(names) == 1
	}, 10*time.Second, time.Millisecond)
	return name
}

func TestRedisThatGoesAwayInTheMiddleHoldsNobody(t *testing.T) {
	for name, away := range map[string]func(*redistest.Server, testing.TB){
		"killed": func(s *redistest.Server, _ testing.TB) { s.Stop() },
		"hangs":  (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			all := processes(t, server.URL, 4, respcache.RedisOptions{Timeout: 500 * time.Millisecond, Failed: func() {}})
			_, flight, sends := all[0].ask(t.Context())
			require.True(t, sends)
			s := stampedeOf(t.Context(), all)
			require.Eventually(t, func() bool { return asking(all) == 4*each+1 }, 10*time.Second, time.Millisecond)
			away(server, t)
			began := time.Now()
			for range 3 {
				(<-s.sent).lands("words")
			}
			require.Less(t, time.Since(began), 4*time.Second, "as without it")
			flight.End(words(time.Now()), false)
			s.all.Wait()
			require.Len(t, s.got, 4*each-3)
		})
	}
}

// A lease that has expired, and that another has, is neither ended nor renewed by the process that had it.
func TestTheLeaseOfAnotherStays(t *testing.T) {
	t.Parallel()
	all := processes(t, redistest.Start(t).URL, 2, respcache.RedisOptions{Lease: time.Minute})
	for name, end := range map[string]func(*respcache.Flight){
		"failed":   func(f *respcache.Flight) { f.End(nil, true) },
		"not kept": func(f *respcache.Flight) { f.End(nil, false) },
		"kept": func(f *respcache.Flight) {
			all[0].Keep(all[0].key, words(all[0].now))
			f.End(words(all[0].now), false)
		},
	} {
		client := all[1].client
		_, before, sends := all[0].ask(t.Context())
		require.True(t, sends)
		lease := leaseName(t, client)
		require.NotContains(t, lease, fmt.Sprintf("%x", all[0].key[:8]), "the name does not tell the key")
		require.NoError(t, client.Del(t.Context(), lease).Err())
		_, after, sends := all[1].ask(t.Context())
		require.True(t, sends)
		token := client.Get(t.Context(), lease).Val()
		end(before)
		require.NoError(t, all[0].remote.Close(t.Context()))
		require.Equal(t, token, client.Get(t.Context(), lease).Val(), name)
		after.End(nil, true)
		require.NoError(t, all[1].remote.Close(t.Context()))
		require.Zero(t, client.Exists(t.Context(), lease).Val(), name)
		require.NoError(t, client.FlushAll(t.Context()).Err())
	}
}

// A client with max-age to whom the kept answer is too old shares the next one.
func TestOneAsksInsteadOfWhatIsTooOld(t *testing.T) {
	t.Parallel()
	all := processes(t, redistest.Start(t).URL, 4, respcache.RedisOptions{})
	all[0].Keep(all[0].key, &respcache.Answer{At: all[0].now.Add(-time.Minute), Body: []byte("old")})
	require.NoError(t, all[0].remote.Close(t.Context()))
	for _, p := range all {
		p.maxAge = 10 * time.Second
	}
	s := stampedeOf(t.Context(), all)
	(<-s.sent).lands("words")
	s.all.Wait()
	require.Len(t, s.got, 4*each-1)
	require.Equal(t, "words", <-s.got)
}

// Whoever can write to Redis can have requests wait, but no longer than they wait for each other.
func TestAForgedLease(t *testing.T) {
	t.Parallel()
	p := processes(t, redistest.Start(t).URL, 1, respcache.RedisOptions{})[0]
	_, flight, _ := p.ask(t.Context())
	lease := leaseName(t, p.client)
	flight.End(nil, true)
	require.NoError(t, p.remote.Close(t.Context()))
	for forged, waits := range map[string]bool{"": false, "-": false, "nobody's": true} {
		require.NoError(t, p.client.Set(t.Context(), lease, forged, 0).Err())
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan *respcache.Flight)
		go func() {
			_, f, _ := p.ask(ctx)
			asked <- f
		}()
		if waits {
			cancel()
		}
		(<-asked).End(nil, true)
		cancel()
		require.NoError(t, p.remote.Close(t.Context()))
	}
}
