package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/testenv"

	"github.com/modelgate/modelgate/test/harness"
)

// A split is the gateway as processes of their own: two control planes on one etcd, one ext_proc service, one Envoy.
type split struct {
	*gateway
	t       testing.TB
	etcd    *etcdtest.Server // nil: endpoint is of another
	planes  [2]*harness.Process
	extproc *harness.Process
	envoy   *harness.Process
	port    int
	// endpoint is where etcd is, and object, where it is not nil, where the job service is.
	endpoint string
	object   *configv1.JobService
	extra    []configv1.Object // that object needs
	keyID    string
	workers  int    // of Envoy; 0: one
	spool    string // folder of the ext_proc service; empty: one of the test's own
	echo     string // URL of the provider "echo"
	ledger   string // URL of the ledger; empty: SQLite in the test's own folder
	limits   string // URL of the Redis of limits; empty: they are in memory

	// What differs between Unix sockets and a network: where the control planes listen, and the flags with which they do
	// and with which their clients connect to the first.
	listen        [2]string
	serve, client []string
}

// startSplit starts the parts with a provider "echo" and a key. The first control plane is the one that Envoy and the
// ext_proc service are connected to.
func startSplit(t testing.TB) *split {
	s := newSplit(t)
	s.listen = [2]string{s.socket("xds0"), s.socket("xds1")}
	s.client = []string{"--xds-address", s.listen[0]}
	s.start()
	return s
}

func newSplit(t testing.TB) *split {
	etcd := etcdtest.New(t)
	s := newSplitOver(t, etcd.Endpoint())
	s.etcd = etcd
	return s
}

func newSplitOver(t testing.TB, endpoint string) *split {
	dir, err := os.MkdirTemp("", "mg") // a test's own folder is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &split{gateway: &gateway{&harness.Gateway{Dir: dir}}, t: t, endpoint: endpoint, port: harness.FreePort(t)}
}

func (s *split) start() {
	for i := range s.planes {
		s.planes[i] = s.startPlane(i)
	}
	s.configure()
	s.startExtProc()
	s.startEnvoy()
	s.awaitService()
}

func (s *split) socket(name string) string { return "unix://" + filepath.Join(s.Dir, name+".sock") }

func (s *split) startPlane(i int) *harness.Process {
	p := s.launchPlane(i)
	p.WaitFor(s.t, "control plane started")
	return p
}

func (s *split) launchPlane(i int) *harness.Process {
	return harness.Launch(s.t, nil, append([]string{"controlplane", "--etcd-endpoints", s.endpoint,
		"--listen", s.listen[i], "--admin", "127.0.0.1:0", "--ledger", s.ledgerURL(),
		"--pepper", filepath.Join(s.Dir, "pepper"), "--admin-token", filepath.Join(s.Dir, "admin-token"),
		"--credential-file", s.Dir + "/"}, s.serve...)...)
}

// ledgerURL is where both control planes keep the ledger.
func (s *split) ledgerURL() string {
	return cmp.Or(s.ledger, (&url.URL{Scheme: "sqlite", Path: filepath.Join(s.Dir, "ledger.db")}).String())
}

// adminURL reads the address of a process's admin server from its log.
func adminURL(t testing.TB, p *harness.Process) string {
	t.Helper()
	for line := range strings.SplitSeq(p.Output(), "\n") {
		if _, rest, ok := strings.Cut(line, `"admin":"`); ok {
			address, _, _ := strings.Cut(rest, `"`)
			return "http://" + address
		}
	}
	t.Fatalf("no admin address in %s", p.Output())
	return ""
}

// configure stores a gateway, its certificate, the provider and a key, through either control plane.
func (s *split) configure() {
	t := s.t
	pair, err := certs.Ensure(s.Dir, []string{"127.0.0.1"}, time.Now())
	require.NoError(t, err)
	s.gateway.Client = harness.ClientFor(t, filepath.Join(s.Dir, certs.FileCA))
	s.URL = fmt.Sprintf("https://127.0.0.1:%d", s.port)
	s.Admin = adminURL(t, s.planes[0])
	echo := httptest.NewServer(fakeprovider.Handler())
	t.Cleanup(echo.Close)
	s.echo = echo.URL

	objects := []configv1.Object{
		&configv1.Provider{Name: "echo", Vendor: "echo", Endpoint: echo.URL, Models: []string{"echo"}},
		&configv1.Certificate{Name: "default", Chain: string(pair.Certificate),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}}},
		&configv1.Gateway{Name: "default", Address: "127.0.0.1", Port: uint32(s.port)},
	}
	objects = append(objects, s.extra...)
	if s.object != nil {
		objects = append(objects, s.object)
	}
	for _, o := range objects {
		y, err := configv1.MarshalYAML(o)
		require.NoError(t, err)
		harness.Must(t, string(y), append([]string{"config", "apply", "-f", "-"}, s.at(1)...)...)
	}
	made := harness.Decode(t, harness.Must(t, "", append([]string{"key", "create", "--name", "test", "-o", "json"},
		s.at(0)...)...))
	s.keyID, s.Key = made["id"].(string), made["key"].(string)
}

// at are the flags that name a control plane.
func (s *split) at(plane int) []string {
	return []string{"--server", adminURL(s.t, s.planes[plane]), "--token", s.File(s.t, "admin-token")}
}

func (s *split) startExtProc() {
	s.launchExtProc()
	s.extproc.WaitFor(s.t, "configuration received")
}

func (s *split) launchExtProc() {
	s.extproc = harness.Launch(s.t, nil, append([]string{"extproc", "--listen", s.socket("extproc"), "--admin",
		"127.0.0.1:0",
		"--spool", cmp.Or(s.spool, filepath.Join(s.Dir, "spool")), "--limits", cmp.Or(s.limits, "memory")}, s.client...)...)
}

// startEnvoy starts Envoy as an operator does, with the bootstrap that the binary prints.
func (s *split) startEnvoy() {
	text := harness.Must(s.t, "", append([]string{"envoy", "bootstrap", "--extproc", s.socket("extproc"),
		"--admin-socket", filepath.Join(s.Dir, "envoy-admin.sock")}, s.client...)...)
	path := filepath.Join(s.Dir, "envoy.yaml")
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	cmd := exec.Command(testenv.Envoy(s.t), "-c", path, "--disable-hot-restart", "--concurrency",
		strconv.Itoa(max(1, s.workers)), "--log-level", "warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.envoy = harness.Start(s.t, cmd)
}

// awaitService waits until a chat completion succeeds.
func (s *split) awaitService() {
	s.t.Helper()
	harness.Eventually(s.t, "service", func() error { return s.chat() })
}

// chat asks for a chat completion of the built-in provider.
func (s *split) chat() error {
	status, body, err := s.post("/v1/chat/completions", s.Key,
		`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	return err
}

func TestSplit(t *testing.T) {
	s := startSplit(t)
	t.Run("both control planes say the same", s.twoPlanes)
	t.Run("the ext_proc service is killed", s.extprocKilled)
	t.Run("the ext_proc service is killed under load", s.extprocKilledUnderLoad)
	t.Run("a control plane is killed", s.planeKilled)
	t.Run("garbage in etcd", s.garbage)
	t.Run("etcd stops", s.etcdStops)
}

func (s *split) twoPlanes(t *testing.T) {
	for i := range s.planes {
		out := harness.Must(t, "", append([]string{"config", "get", "providers", "-o", "name"}, s.at(i)...)...)
		require.Contains(t, out, "echo")
		harness.Eventually(t, "ready", func() error {
			response, err := http.Get(adminURL(t, s.planes[i]) + "/readyz")
			if err == nil {
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					err = errStill
				}
			}
			return err
		})
	}
	// A change through the control plane that serves nobody reaches Envoy and the ext_proc service through the other.
	harness.Must(t, "kind: Model\nname: alias\ntargets: [{provider: echo, model: echo}]\n",
		append([]string{"config", "apply", "-f", "-"}, s.at(1)...)...)
	harness.Eventually(t, "the new model", func() error { return s.has("alias") })
}

func (s *split) extprocKilled(t *testing.T) {
	stream := s.openStream(t, 1<<20)
	defer func() { _ = stream.Body.Close() }()
	s.extproc.Kill()
	for range 20 {
		status, body, err := s.post("/v1/chat/completions", s.Key,
			`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`)
		require.NoError(t, err)
		require.Equal(t, 503, status, "fails closed")
		e := harness.Decode(t, body)["error"].(map[string]any)
		require.Equal(t, "gateway_unavailable", e["code"])
		status, _, err = s.post("/v1/chat/completions", "none", `{}`)
		require.NoError(t, err)
		require.Equal(t, 503, status, "nothing passes unauthenticated")
	}
	require.Error(t, drain(stream), "a stream in flight is cut, not completed")
	s.startExtProc()
	s.awaitService()
}

// extprocKilledUnderLoad kills the service three times while requests are in every phase. What a client gets is an
// answer that is whole, an error in OpenAI's form, or a broken connection; and without a key, never an answer.
func (s *split) extprocKilledUnderLoad(t *testing.T) {
	var workers sync.WaitGroup
	stop := make(chan struct{})
	var answered, refused atomic.Int64
	for n := range 16 {
		workers.Go(func() {
			key := []string{s.Key, "none"}[n%2]
			for {
				select {
				case <-stop:
					return
				default:
				}
				status, body, err := s.post("/v1/chat/completions", key,
					`{"model":"echo/echo","stream":true,"messages":[{"role":"user","content":"one two three"}]}`)
				switch {
				case err != nil:
				case status == http.StatusOK && key == s.Key && strings.HasSuffix(body, "data: [DONE]\n\n"):
					answered.Add(1)
				case (status == http.StatusServiceUnavailable || status == http.StatusUnauthorized ||
					status == http.StatusTooManyRequests && key != s.Key) && strings.HasPrefix(body, `{"error":`):
					refused.Add(1)
				default:
					t.Errorf("key %v: status %d: %s", key == s.Key, status, body)
				}
			}
		})
	}
	for range 3 {
		before := answered.Load()
		harness.Eventually(t, "answers", func() error {
			if answered.Load() < before+200 {
				return errStill
			}
			return nil
		})
		s.extproc.Kill()
		s.startExtProc()
	}
	close(stop)
	workers.Wait()
	require.Positive(t, refused.Load())
	s.awaitService()
}

func (s *split) planeKilled(t *testing.T) {
	s.planes[0].Kill()
	for range 20 {
		require.NoError(t, s.chat(), "traffic goes on with the last configuration")
	}
	s.planes[0] = s.startPlane(0)
	harness.Must(t, "kind: Model\nname: later\ntargets: [{provider: echo, model: echo}]\n",
		append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	harness.Eventually(t, "the new model", func() error { return s.has("later") })
	require.NoError(t, s.chat())
}

func (s *split) garbage(t *testing.T) {
	etcd := s.etcd.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	before, err := etcd.Get(ctx, "/modelgate/v1/provider/echo")
	if err == nil && before.Count == 0 {
		before, err = etcd.Get(ctx, "/modelgate/v1/providers/echo")
	}
	require.NoError(t, err)
	require.EqualValues(t, 1, before.Count)
	key := string(before.Kvs[0].Key)
	_, err = etcd.Put(ctx, key, "\x00 not JSON {")
	require.NoError(t, err)
	harness.Eventually(t, "it is reported", func() error {
		out, _ := harness.Command(t, "", append([]string{"config", "get", "providers", "echo", "-o", "json"}, s.at(0)...)...)
		if !strings.Contains(out, "error") {
			return fmt.Errorf("config get printed %s", out)
		}
		return nil
	})
	for range 10 {
		require.NoError(t, s.chat(), "the last good one stays")
	}
	_, err = etcd.Put(ctx, key, string(before.Kvs[0].Value))
	require.NoError(t, err)
}

func (s *split) etcdStops(t *testing.T) {
	s.etcd.Stop()
	require.NoError(t, s.chat())
	s.extproc.Kill()
	s.startExtProc()
	s.awaitService()
	s.envoy.Kill()
	s.startEnvoy()
	s.awaitService()
	out, err := harness.Command(t, "kind: Model\nname: x\ntargets: [{provider: echo, model: echo}]\n",
		append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	require.Error(t, err, "a change is refused, clearly")
	require.NotEmpty(t, out)
	s.etcd.Start(t)
	harness.Eventually(t, "changes are taken again", func() error {
		_, err := harness.Command(t, "kind: Model\nname: back\ntargets: [{provider: echo, model: echo}]\n",
			append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
		return err
	})
	harness.Eventually(t, "the new model", func() error { return s.has("back") })
}
