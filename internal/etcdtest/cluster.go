package etcdtest

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// A Cluster is an etcd of several members. Each can be stopped and started again. Its methods must not be
// called at the same time.
type Cluster struct {
	members []*member
}

type member struct {
	config *embed.Config
	etcd   *embed.Etcd // nil while it is stopped
}

// NewCluster starts a cluster of n members with more settings, which end with the test. An election takes it about a
// fifth of a second.
func NewCluster(t testing.TB, n int, settings ...func(*embed.Config)) *Cluster {
	t.Helper()
	c := &Cluster{}
	var all []string
	for i := range n {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprint("member-", i), t.TempDir()
		client, peer := reserve(t), reserve(t)
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.TickMs, cfg.ElectionMs = 20, 200
		cfg.UnsafeNoFsync = true
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		for _, set := range settings {
			set(cfg)
		}
		all = append(all, cfg.Name+"="+peer.String())
		c.members = append(c.members, &member{config: cfg})
	}
	t.Cleanup(func() { c.Stop(c.numbers()...) })
	for _, m := range c.members {
		m.config.InitialCluster = strings.Join(all, ",")
	}
	c.Start(t, c.numbers()...)
	return c
}

// reserve returns an address that is free for now.
func reserve(t testing.TB) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

func (c *Cluster) numbers() []int {
	all := make([]int, len(c.members))
	for i := range all {
		all[i] = i
	}
	return all
}

// Start starts members together, and returns when they serve.
func (c *Cluster) Start(t testing.TB, members ...int) {
	t.Helper()
	var starting sync.WaitGroup
	errs := make([]error, len(members))
	for at, i := range members {
		starting.Go(func() { c.members[i].etcd, errs[at] = embed.StartEtcd(c.members[i].config) })
	}
	starting.Wait()
	for at, i := range members {
		require.NoError(t, errs[at], "start etcd")
		select {
		case <-c.members[i].etcd.Server.ReadyNotify():
		case <-time.After(startTimeout):
			t.Fatal("etcd was not ready in time")
		}
	}
}

// Stop stops members at once.
func (c *Cluster) Stop(members ...int) {
	var stopping sync.WaitGroup
	for _, i := range members {
		if m := c.members[i]; m.etcd != nil {
			stopping.Go(m.etcd.Close)
			m.etcd = nil
		}
	}
	stopping.Wait()
}

// Leader returns the number of the leader, or -1 if there is none.
func (c *Cluster) Leader() int {
	for i, m := range c.members {
		if m.etcd != nil && m.etcd.Server.Leader() == m.etcd.Server.MemberID() {
			return i
		}
	}
	return -1
}

// Endpoints are the URLs of all members.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.config.AdvertiseClientUrls[0].String())
	}
	return all
}

// Client returns a client of all members that is closed when the test ends.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop()})
	require.NoError(t, err, "make etcd client")
	t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	return client
}
