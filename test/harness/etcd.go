package harness

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// envEtcd tells the test's binary that it is an etcd, and where.
const envEtcd = "MODELGATE_TEST_ETCD"

// An Etcd is an etcd in a process of its own, which can be killed and started again. Unlike that of etcdtest, it syncs to disk.
type Etcd struct {
	*Process
	at etcdAddress
}

type etcdAddress struct{ Dir, Client, Peer string }

// StartEtcd starts an etcd on free ports of loopback. It does not wait until it is ready: its clients do.
func StartEtcd(t testing.TB) *Etcd {
	t.Helper()
	loopback := func() string { return fmt.Sprintf("http://127.0.0.1:%d", FreePort(t)) }
	e := &Etcd{at: etcdAddress{t.TempDir(), loopback(), loopback()}}
	e.Restart(t)
	return e
}

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

// serveEtcd is an etcd of one member, until the process is killed.
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
	cfg.Dir = at.Dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.LogLevel = "error"
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	return <-etcd.Err()
}
