package ha

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// probeEvery is how often a service asks its endpoints whether they are ready.
const probeEvery = 50 * time.Millisecond

// A service is what a Service of Kubernetes is: an address behind which there are several processes. It knows nothing
// of what passes through it. A new connection goes to one of those that were ready when last asked, in turn, and to no
// other where that one refuses it; one that is open stays until either side ends it.
type service struct {
	address string // as clients are given it
	l       net.Listener
	work    sync.WaitGroup

	mu        sync.Mutex // guards what follows
	endpoints []*endpoint
	next      int
	conns     map[net.Conn]bool
	closed    bool
}

// An endpoint is a process behind a service.
type endpoint struct {
	address string
	probe   func(ctx context.Context) error

	// Guarded by the service: what its probe says, that it is to get nothing new, how many connections it has, and how
	// many were tried.
	ready, retired bool
	open, tried    int
}

// split returns the network and the address that net takes of unix:///path or host:port.
func split(address string) (network, at string) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		return "unix", path
	}
	return "tcp", address
}

// newService listens until the test ends.
func newService(t testing.TB, address string, endpoints ...*endpoint) *service {
	s := &service{address: address, endpoints: endpoints, conns: map[net.Conn]bool{}}
	s.open(t)
	ctx, stop := context.WithCancel(context.Background())
	for _, e := range endpoints {
		s.work.Go(func() { s.watch(ctx, e) })
	}
	t.Cleanup(func() { stop(); s.close(); s.work.Wait() })
	return s
}

// open listens again after close.
func (s *service) open(t testing.TB) {
	network, at := split(s.address)
	if network == "unix" {
		_ = os.Remove(at) // of before
	}
	l, err := net.Listen(network, at)
	require.NoError(t, err)
	s.mu.Lock()
	s.l, s.closed = l, false
	s.mu.Unlock()
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.work.Go(func() { s.serve(c) })
		}
	})
}

// close refuses new connections and cuts those there are, as a network that is gone.
func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = s.l.Close()
	}
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *service) watch(ctx context.Context, e *endpoint) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		err := e.probe(limited)
		cancel()
		s.mu.Lock()
		e.ready = err == nil
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// carried returns how many connections an endpoint has, and how many it was ever to get.
func (s *service) carried(e *endpoint) (open, tried int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.open, e.tried
}

// isReady reports whether new connections go to an endpoint.
func (s *service) isReady(e *endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.ready && !e.retired
}

// retire has no new connection go to an endpoint, ready or not.
func (s *service) retire(e *endpoint) { s.setRetired(e, true) }

// unretire ends what retire began. It is not ready until it is asked again.
func (s *service) unretire(e *endpoint) { s.setRetired(e, false) }

func (s *service) setRetired(e *endpoint, retired bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.retired, e.ready = retired, false
}

// pick returns the endpoint that is next, or nil.
func (s *service) pick() *endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := slices.DeleteFunc(slices.Clone(s.endpoints), func(e *endpoint) bool { return !e.ready || e.retired })
	if len(ready) == 0 {
		return nil
	}
	s.next++
	return ready[s.next%len(ready)]
}

// admit notes connections, which close ends; it ends them at once where it was called.
func (s *service) admit(conns ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		if s.closed {
			_ = c.Close()
		} else {
			s.conns[c] = true
		}
	}
	return !s.closed
}

func (s *service) serve(down net.Conn) {
	defer func() { _ = down.Close() }()
	e := s.pick()
	if e == nil {
		return
	}
	network, at := split(e.address)
	up, err := net.DialTimeout(network, at, time.Second)
	s.mu.Lock()
	e.tried++
	if err == nil {
		e.open++
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	if !s.admit(down, up) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(up, down) })
	both.Go(func() { pipe(down, up) })
	both.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.open--
	delete(s.conns, down)
	delete(s.conns, up)
}

// pipe copies one direction to its end, and passes that on. Where it breaks, both ends do.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close()
		_ = from.Close()
	}
}
