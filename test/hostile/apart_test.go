package hostile

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// An apart is the gateway as processes of their own, each with its socket in one folder: a control plane on an etcd,
// the ext_proc service, Envoy under "envoy run", and the built-in provider.
type apart struct {
	*harness.Gateway
	t                     testing.TB
	plane, extproc, envoy *harness.Process
}

// startApart starts the parts with a provider "echo" and a key, and waits until they serve.
func startApart(t testing.TB) *apart {
	t.Helper()
	dir, err := os.MkdirTemp("", "mg") // a test's own folder is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port := harness.FreePort(t)
	a := &apart{t: t, Gateway: &harness.Gateway{Dir: dir, URL: fmt.Sprintf("https://127.0.0.1:%d", port)}}
	a.plane = harness.Launch(t, nil, "controlplane", "--etcd-endpoints", etcdtest.New(t).Endpoint(), "--listen",
		a.socket("xds"), "--admin", "127.0.0.1:0",
		"--ledger", (&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, "ledger.db")}).String(),
		"--pepper", filepath.Join(dir, "pepper"), "--admin-token", filepath.Join(dir, "admin-token"))
	a.plane.WaitFor(t, "control plane started")
	pair, err := certs.Ensure(dir, []string{"127.0.0.1"}, time.Now())
	require.NoError(t, err)
	a.Client = harness.ClientFor(t, filepath.Join(dir, certs.FileCA))
	echo := harness.Launch(t, nil, "echo", "--listen", a.socket("echo"))
	echo.WaitFor(t, "echo")
	harness.Must(t, harness.Documents(t,
		&configv1.Provider{Name: "echo", Vendor: "echo", Endpoint: a.socket("echo"), Models: []string{"echo"}},
		&configv1.Certificate{Name: "default", Chain: string(pair.Certificate),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}}},
		&configv1.Gateway{Name: "default", Address: "127.0.0.1", Port: uint32(port)},
	), append([]string{"config", "apply", "-f", "-"}, a.server()...)...)
	a.Key = harness.Decode(t, harness.Must(t, "", append([]string{"key", "create", "--name", "test", "-o", "json"},
		a.server()...)...))["key"].(string)
	a.startExtProc()
	a.envoy = harness.Launch(t, nil, "envoy", "run", "--envoy", testenv.Envoy(t), "--dir", dir, "--extproc",
		a.socket("extproc"), "--admin", "127.0.0.1:0",
		"--concurrency", "2", "--xds-address", a.socket("xds"))
	return a
}

func (a *apart) socket(name string) string { return "unix://" + filepath.Join(a.Dir, name+".sock") }

// server are the flags with which commands find the control plane.
func (a *apart) server() []string {
	_, rest, _ := strings.Cut(a.plane.WaitFor(a.t, "control plane started"), `"admin":"`)
	address, _, _ := strings.Cut(rest, `"`)
	return []string{"--server", "http://" + address, "--token", a.File(a.t, "admin-token")}
}

// startExtProc starts the ext_proc service and does not wait for it.
func (a *apart) startExtProc() {
	a.extproc = harness.Launch(a.t, nil, "extproc", "--listen", a.socket("extproc"), "--admin", "127.0.0.1:0",
		"--spool", filepath.Join(a.Dir, "spool"), "--xds-address", a.socket("xds"))
}
