package configstore_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

// A proxy stands between a client and etcd. While it is closed, connections are cut and new ones refused.
type proxy struct {
	mu     sync.Mutex // guards everything below
	target string
	open   bool
	conns  []net.Conn
}

// severable returns a client of the server whose connection can be cut and restored.
func severable(t *testing.T, server *etcdtest.Server) (*clientv3.Client, *proxy) {
	t.Helper()
	target, err := url.Parse(server.Endpoint())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{target: target.Host, open: true}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.set(false)
		wg.Wait()
	})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + l.Addr().String()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, p
}

func (p *proxy) set(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
	if !open {
		for _, c := range p.conns {
			c.Close()
		}
		p.conns = nil
	}
}

// to has new connections lead to another etcd.
func (p *proxy) to(server *etcdtest.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(server.Endpoint(), "http://")
}

// admit registers connections to be cut, or cuts them at once.
func (p *proxy) admit(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		for _, c := range conns {
			c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

func (p *proxy) serve(down net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	up, err := net.Dial("tcp", target)
	if err != nil {
		down.Close()
		return
	}
	if !p.admit(down, up) {
		return
	}
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{down, up}, {up, down}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			pair[0].Close()
			pair[1].Close()
		})
	}
	wg.Wait()
}
