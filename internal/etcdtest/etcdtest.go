// Package etcdtest runs a real etcd in a test.
//
// It does not sync to disk, so that tests are fast. Its data survives [Server.Stop] and [Server.Start], but not a
// crash of the machine.
package etcdtest

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const startTimeout = 30 * time.Second

// Start runs an etcd until the test ends, and returns a client of it.
func Start(t testing.TB) *clientv3.Client {
	t.Helper()
	return New(t).Client(t)
}

// A Server is an etcd that can be stopped and started again with its directory and its ports. Its methods must not be
// called at the same time.
type Server struct {
	dir    string
	client url.URL
	peer   url.URL
	quota  int64 // bytes; 0: etcd's default
	etcd   *embed.Etcd
}

// New starts an etcd on ports that the system chooses. It ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	return WithQuota(t, 0)
}

// WithQuota is New with a quota in bytes, which can be so small that the etcd is full at once.
func WithQuota(t testing.TB, bytes int64) *Server {
	t.Helper()
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	s := &Server{dir: t.TempDir(), client: loopback, peer: loopback, quota: bytes}
	s.Start(t)
	t.Cleanup(s.Stop)
	return s
}

// Start starts a server that was stopped.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = s.dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{s.client}, []url.URL{s.client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{s.peer}, []url.URL{s.peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = s.quota
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(cfg)
	require.NoError(t, err, "start etcd")
	s.etcd = etcd
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(startTimeout):
		s.Stop()
		t.Fatal("etcd was not ready in time")
	}
	s.client.Host = etcd.Clients[0].Addr().String()
}

// Stop stops the server. Stopping twice is harmless.
func (s *Server) Stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// Endpoint is the URL at which the server is, or was before it was stopped.
func (s *Server) Endpoint() string { return s.client.String() }

// Client returns a client that is closed when the test ends.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err, "make etcd client")
	t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	return client
}
