package pitfalls

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A relay is a way to a server that can be interrupted. It passes what comes, and counts it.
type relay struct {
	net.Listener
	network, target string

	passed atomic.Int64 // bytes that the server has sent
	broken atomic.Int64 // connections that were broken

	mu    sync.Mutex // guards what follows
	most  int64      // bytes after which a connection is broken; negative: any number
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

// relayTo starts a relay at an address to a server. It ends with the test.
func relayTo(t testing.TB, network, address, target string) *relay {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	r := &relay{Listener: l, network: network, target: target, most: -1, conns: map[net.Conn]bool{}}
	r.all.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.breakAfter(0)
		r.all.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		c, err := r.Accept()
		if err != nil {
			return
		}
		r.all.Go(func() { r.pass(c) })
	}
}

// breakAfter breaks every connection that there is, and those to come once so many bytes have passed to the client.
// With -1 it breaks none to come.
func (r *relay) breakAfter(most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = most
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) keep(c net.Conn) (most int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = true
	return r.most
}

func (r *relay) forget(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// pass carries one connection.
func (r *relay) pass(client net.Conn) {
	defer r.forget(client)
	most := r.keep(client)
	if most == 0 {
		r.broken.Add(1)
		return
	}
	server, err := net.Dial(r.network, r.target)
	if err != nil {
		return
	}
	defer r.forget(server)
	r.keep(server)
	r.all.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	var from io.Reader = server
	if most > 0 {
		from = io.LimitReader(server, most)
	}
	n, _ := io.Copy(io.MultiWriter(client, counter{&r.passed}), from)
	if n == most {
		r.broken.Add(1)
	}
}

// A counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
