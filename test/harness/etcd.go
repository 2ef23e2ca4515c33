package harness

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// envEtcd tells the test's binary that it is an etcd, and where.
const envEtcd = "MODELGATE_TEST_ETCD"

// An Etcd is an etcd in a process of its own, which can be killed and started again. Unlike that of etcdtest, it syncs
// to disk.
type Etcd struct {
	*Process
	at etcdAddress
}

// etcdAddress is what a member is started with. Members, where there is more than one, are all of the cluster, as
// etcd's initial cluster.
type etcdAddress struct{ Name, Dir, Client, Peer, Members string }

// StartEtcd starts an etcd on free ports of loopback. It does not wait until it is ready: its clients do.
func StartEtcd(t testing.TB) *Etcd {
	t.Helper()
	return StartEtcds(t, 1)[0]
}

// StartEtcds starts the members of a cluster, each in a process of its own, as StartEtcd does. SIGTERM has one hand
// over what it leads.
func StartEtcds(t testing.TB, n int) []*Etcd {
	t.Helper()
	loopback := func() string { return fmt.Sprintf("http://127.0.0.1:%d", FreePort(t)) }
	var all []*Etcd
	var members []string
	for i := range n {
		e := &Etcd{at: etcdAddress{Name: fmt.Sprint("member-", i), Dir: t.TempDir(), Client: loopback(), Peer: loopback()}}
		members = append(members, e.at.Name+"="+e.at.Peer)
		all = append(all, e)
	}
	for _, e := range all {
		e.at.Members = strings.Join(members, ",")
		e.Restart(t)
	}
	return all
}

// Lose removes the data of one that has ended: when it is started again it is empty.
func (e *Etcd) Lose(t testing.TB) { e.at.Dir = t.TempDir() }

// Restart starts it again, after it was killed, with its data and its ports.
func (e *Etcd) Restart(t testing.TB) {
	t.Helper()
	where, err := json.Marshal(e.at)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(CleanEnv(), envEtcd+"="+string(where))
	e.Process = Start(t, cmd)
}

// Endpoint is where clients find it.
func (e *Etcd) Endpoint() string { return e.at.Client }

// Client returns a client that is closed when the test ends.
func (e *Etcd) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	return client
}

// serveEtcd is a member of an etcd, until the process is killed or told to end.
func serveEtcd(where string) error {
	var at etcdAddress
	if err := json.Unmarshal([]byte(where), &at); err != nil {
		return err
	}
	client, err := url.Parse(at.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(at.Peer)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = at.Name, at.Dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = at.Members
	cfg.TickMs, cfg.ElectionMs = 10, 50
	if strings.Contains(at.Members, ",") {
		cfg.TickMs, cfg.ElectionMs = 50, 500
	}
	cfg.LogLevel = "error"
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	select {
	case err := <-etcd.Err():
		return err
	case <-ending:
		etcd.Close()
		return nil
	}
}
