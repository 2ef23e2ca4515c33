package transport_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/internal/testenv"
)

const (
	// soakFor is the environment variable that has how long the soak runs.
	soakFor = "MODELGATE_SOAK"
	// soakShare has the share of a core that it may use, such as 0.15.
	soakShare = "MODELGATE_SOAK_SHARE"
	// soakRecord has the file in which it records what it has seen.
	soakRecord = "MODELGATE_SOAK_RECORD"
	// patience is how long anything may take. It is long, as the soak runs beside others on a machine that is busy.
	patience = time.Minute
)

// A soak is what a run has seen.
type soak struct {
	sides  []*side
	begun  time.Time
	used   time.Duration // CPU before it began
	share  float64
	total  time.Duration
	rounds int

	outcomes map[string]int // how often scripts ended so, on both sides
	restarts int
	streams  int
	handlers int
	delay    map[string]time.Duration // the longest of a small message beside large ones
	held     int                      // the most bytes of a connection
	bound    int
	waiting  int

	warm, last size
	peak       size
}

// A size is what the process has when all is quiet.
type size struct {
	goroutines, files int
	heap              uint64
}

// TestSoak plays the same scripts on both transports: streams that talk, are reset, cancelled and cut, connections
// that break and that break the rules, restarts of the servers. The outcomes are the same, every handler is closed
// once, and nothing grows. It runs for an hour by `make soak`.
func TestSoak(t *testing.T) {
	s := newSoak(t)
	for period := 1; time.Since(s.begun) < s.total; period++ {
		if !t.Run(fmt.Sprint("period ", period), s.period) {
			break
		}
		s.record(t)
	}
	for _, side := range s.sides {
		for _, c := range side.clients {
			_ = c.Close()
		}
		side.stop(t)()
		if lean, ok := side.carrier.(*transport.Server); ok {
			conns, streams := lean.Open()
			require.Zero(t, conns+streams, "connections and streams are left")
		}
	}
}

func newSoak(t *testing.T) *soak {
	s := &soak{begun: time.Now(), used: testenv.CPU(t), share: 100, outcomes: map[string]int{},
		total: time.Duration(testenv.Size(2, 30)) * time.Second, delay: map[string]time.Duration{}}
	var err error
	if long := os.Getenv(soakFor); long != "" {
		s.total, err = time.ParseDuration(long)
		require.NoError(t, err, soakFor)
	}
	if share := os.Getenv(soakShare); share != "" {
		s.share, err = strconv.ParseFloat(share, 64)
		require.NoError(t, err, soakShare)
	}
	for _, name := range []string{"extproc/transport", "grpc-go"} {
		s.sides = append(s.sides, newSide(t, name))
	}
	return s
}

// period plays rounds for a while, and then looks at what is left.
func (s *soak) period(t *testing.T) {
	length, begun := min(time.Minute, s.total/4), time.Now()
	for time.Since(begun) < length {
		s.round(t)
		s.rest(t)
	}
	for _, side := range s.sides {
		s.settle(t, side)
	}
	s.measure(t)
}

// rest waits until the share of the CPU is kept.
func (s *soak) rest(t *testing.T) {
	due := time.Duration(float64(testenv.CPU(t)-s.used)/s.share) - time.Since(s.begun)
	<-time.After(due)
}

// round plays some scripts on both sides at once.
func (s *soak) round(t *testing.T) {
	s.rounds++
	restarts := s.rounds%10 == 0
	outcomes := make([][]string, len(s.sides))
	var wait []func()
	for i, side := range s.sides {
		outcomes[i] = s.play(t, side, func() {
			if restarts {
				wait = append(wait, side.stop(t))
				side.start(t)
			}
		})
	}
	for _, ended := range wait {
		ended()
	}
	if restarts {
		s.restarts++
	}
	require.Equal(t, outcomes[1], outcomes[0], "round %d: what came of the scripts on grpc-go, and here", s.rounds)
	for _, outcome := range outcomes[0] {
		s.streams++
		s.outcomes[outcome[strings.LastIndex(outcome, " ")+1:]]++
	}
}

// play plays the scripts of a round on a side. In their midst it calls meanwhile.
func (s *soak) play(t *testing.T, side *side, meanwhile func()) []string {
	var talks sync.WaitGroup
	defer talks.Wait()
	stop := sync.OnceFunc(side.load(t, &talks))
	defer stop()
	defer func() {
		if lean, ok := side.carrier.(*transport.Server); ok && t.Failed() {
			t.Log(strings.Join(lean.State(), "\n"))
			_ = pprof.Lookup("goroutine").WriteTo(t.Output(), 1)
		}
	}()
	outcomes := make([]string, 12)
	for n := range outcomes {
		talks.Go(func() {
			id := fmt.Sprintf("%d/%d", s.rounds, n)
			var seen bool
			if outcomes[n], seen = side.talk(id, rand.New(rand.NewPCG(uint64(s.rounds), uint64(n)))); seen {
				side.expect(t, id)
			}
		})
	}
	meanwhile()
	frames := side.frames(t, s.rounds)
	s.delay[side.name] = max(s.delay[side.name], side.small(t, s.rounds))
	if lean, ok := side.carrier.(*transport.Server); ok {
		held, bound, waiting := lean.Held()
		s.held, s.bound, s.waiting = max(s.held, held), bound, max(s.waiting, waiting)
	}
	stop()
	talks.Wait()
	return slices.Concat(outcomes, frames)
}

// load has a stream send and get large messages until it is stopped.
func (s *side) load(t *testing.T, talks *sync.WaitGroup) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	opened, err := s.clients[0].NewStream(ctx, &streams, "/echo/Echo", grpc.WaitForReady(true))
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
		cancel()
		return func() {}
	}
	talks.Go(func() {
		defer cancel()
		c, large := call{opened}, []byte(strings.Repeat("L", 300<<10))
		for {
			if err := c.SendMsg(&large); err != nil {
				t.Errorf("%s: the large stream: %v", s.name, err)
				return
			}
			if got, err := c.hear(); err != nil || got != string(large) {
				t.Errorf("%s: the large stream: %d bytes, %v", s.name, len(got), err)
				return
			}
			select {
			case <-stopped:
				_ = c.CloseSend()
				if _, err := c.hear(); ended(err) != "OK" {
					t.Errorf("%s: the large stream: %v", s.name, err)
				}
				return
			default:
			}
		}
	})
	return func() { close(stopped) }
}

// small has a stream of small messages beside the large ones, and returns the longest delay of one.
func (s *side) small(t *testing.T, round int) (longest time.Duration) {
	t.Helper()
	opened, err := s.clients[0].NewStream(t.Context(), &streams, "/echo/Echo", grpc.WaitForReady(true))
	require.NoError(t, err)
	c := call{opened}
	for n := range 5 {
		begun := time.Now()
		c.say(t, fmt.Sprint("small ", round, n))
		got, err := c.hear()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("small ", round, n), got)
		longest = max(longest, time.Since(begun))
	}
	require.NoError(t, c.CloseSend())
	_, err = c.hear()
	require.Equal(t, "OK", ended(err))
	require.Less(t, longest, patience, "%s: a small message beside large ones", s.name)
	return longest
}

// frames plays some of the scripts of frames.
func (s *side) frames(t *testing.T, round int) (outcomes []string) {
	random := rand.New(rand.NewPCG(uint64(round), 0))
	for n := range 4 {
		script := frameScripts[(4*round+n)%len(frameScripts)]
		w := &world{t: t, address: s.world.address}
		p := w.connect(script.settings...)
		p.framer.AllowIllegalReads, p.framer.ReadMetaHeaders = false, hpack.NewDecoder(4096, nil)
		require.NoError(t, p.conn.SetDeadline(time.Now().Add(patience)))
		begun := time.Now()
		outcomes = append(outcomes, script.name+": "+script.play(p, fmt.Sprintf("%d/f%d", round, n), random))
		_ = p.conn.Close()
		s.longest = max(s.longest, time.Since(begun))
	}
	return outcomes
}

// expect holds that a handler has seen the stream once: a retry of what was handled would be a second time.
func (s *side) expect(t *testing.T, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[id] != 1 {
		t.Errorf("%s: %d handlers had the stream %s", s.name, s.opened[id], id)
	}
}

// settle waits until every handler is closed, and holds that each was closed once.
func (s *soak) settle(t *testing.T, of *side) {
	t.Helper()
	require.Eventually(t, func() bool {
		of.mu.Lock()
		defer of.mu.Unlock()
		return len(of.opened) == len(of.closed)
	}, patience, time.Millisecond, "%s: handlers are left", of.name)
	of.mu.Lock()
	defer of.mu.Unlock()
	require.Equal(t, of.opened, of.closed, of.name)
	s.handlers += len(of.opened)
	clear(of.opened)
	clear(of.closed)
}

// measure looks that the process has not grown since it was warm.
func (s *soak) measure(t *testing.T) {
	t.Helper()
	for _, side := range s.sides { // its connections are there, whatever the last round did
		for _, c := range side.clients {
			c.Connect()
		}
	}
	var now size
	fits := func() bool {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		now = size{goroutines: runtime.NumGoroutine(), heap: memory.HeapAlloc}
		if files, err := os.ReadDir("/proc/self/fd"); err == nil {
			now.files = len(files)
		}
		return s.warm.goroutines == 0 || now.goroutines <= s.warm.goroutines+10 && now.files <= s.warm.files+4 &&
			now.heap <= s.warm.heap+16<<20
	}
	require.Eventually(t, fits, patience, 20*time.Millisecond, "it was %+v, and is %+v", s.warm, &now)
	if s.warm.goroutines == 0 {
		s.warm = now
	}
	s.last = now
	s.peak = size{max(s.peak.goroutines, now.goroutines), max(s.peak.files, now.files), max(s.peak.heap, now.heap)}
}

// record writes what the soak has seen so far.
func (s *soak) record(t *testing.T) {
	t.Helper()
	var b strings.Builder
	elapsed, cpu := time.Since(s.begun), testenv.CPU(t)-s.used
	fmt.Fprintf(&b, "TestSoak of extproc/transport, beside grpc-go. Written by `make soak`.\n\n")
	fmt.Fprintf(&b, "begun %s, ran %v with %.0f %% of a core, %s %s/%s\n", s.begun.UTC().Format(time.RFC3339),
		elapsed.Round(time.Second), 100*cpu.Seconds()/elapsed.Seconds(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(&b, "%d rounds, %d restarts of each server, %d scripts on each side with the same outcome\n", s.rounds,
		s.restarts, s.streams)
	fmt.Fprintf(&b, "%d handlers on both sides, each opened once and closed once\n", s.handlers)
	for _, side := range s.sides {
		fmt.Fprintf(&b, "%s: longest delay of a small message beside large ones %v, longest script of frames %v\n", side.name,
			s.delay[side.name].Round(time.Microsecond), side.longest.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "most bytes of messages held by a connection: %d of %d; waiting for a peer: %d\n", s.held, s.bound,
		s.waiting)
	fmt.Fprintf(&b, "when quiet:  %10s %10s %10s\n", "goroutines", "files", "heap MB")
	for _, of := range []struct {
		when string
		size
	}{{"warm", s.warm}, {"at most", s.peak}, {"at the end", s.last}} {
		fmt.Fprintf(&b, "%-12s %10d %10d %10.1f\n", of.when, of.goroutines, of.files, float64(of.heap)/(1<<20))
	}
	fmt.Fprintf(&b, "\nthe last words of outcomes:\n")
	words := make([]string, 0, len(s.outcomes))
	for word := range s.outcomes {
		words = append(words, word)
	}
	slices.Sort(words)
	for _, word := range words {
		fmt.Fprintf(&b, "%10d  %s\n", s.outcomes[word], word)
	}
	if path := os.Getenv(soakRecord); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
		return
	}
	t.Log(b.String())
}
