package pitfalls

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	names "github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// An apartGateway is one whose processes run apart, with a way to each of what they need that can be interrupted. It
// has the providers "openai" and "anthropic", which one worker plays, and a Route.
type apartGateway struct {
	limitGateway
	t                        testing.TB // all ends with it
	etcd, ledger, redis, xds *relay
	plane, extproc, envoy    *harness.Process
}

// An onApart has a test run over the one apartGateway that some rows share. Each leaves it as it was.
type onApart func(test func(*testing.T, *apartGateway)) func(*testing.T)

func overApart(root *testing.T) onApart {
	var (
		once   sync.Once
		shared *apartGateway
	)
	return func(test func(*testing.T, *apartGateway)) func(*testing.T) {
		return func(t *testing.T) {
			if testenv.Envoy(t); shared == nil { // which skips this test and not root
				once.Do(func() { shared = startApart(root) })
			}
			shared.worker.answers(answerLine)
			test(t, shared)
		}
	}
}

func startApart(t *testing.T) *apartGateway {
	dir, err := os.MkdirTemp("", "mg") // a test's own folder is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &apartGateway{t: t}
	g.limitGateway = limitGateway{jobGateway{Gateway: &harness.Gateway{Dir: dir}, worker: newWorker(t)}}
	loopback := func(rawURL string) *relay {
		u, err := url.Parse(rawURL)
		require.NoError(t, err)
		return relayTo(t, "tcp", "127.0.0.1:0", u.Host)
	}
	g.etcd, g.redis = loopback(etcdtest.New(t).Endpoint()), loopback(redistest.Start(t).URL)
	g.ledger = relayTo(t, "unix", filepath.Join(dir, ".s.PGSQL.5432"), filepath.Join(pgtestDir(t), ".s.PGSQL.5432"))
	g.xds = relayTo(t, "unix", filepath.Join(dir, "xds"), filepath.Join(dir, "plane"))
	g.startPlane()
	g.configure()
	g.startExtProc()
	g.startEnvoy()
	g.awaitService(t)
	return g
}

// pgtestDir is where the server's socket is.
func pgtestDir(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(os.Getenv(pgtest.Address))
	require.NoError(t, err)
	if u.Query().Get("host") == "" {
		testenv.Missing(t, "a PostgreSQL on a Unix socket", "")
	}
	return u.Query().Get("host")
}

func (g *apartGateway) file(name string) string { return filepath.Join(g.Dir, name) }

// startPlane starts the control plane, whether or not what it needs is there.
func (g *apartGateway) startPlane() {
	ledger, err := url.Parse(cmp.Or(g.ledgerURL(), pgtest.Start(g.t)))
	require.NoError(g.t, err)
	ledger.RawQuery = url.Values{"host": {g.Dir}, "connect_timeout": {"2"}}.Encode()
	require.NoError(g.t, os.WriteFile(g.file("ledger"), []byte(ledger.String()), 0o600))
	g.plane = harness.Launch(g.t, nil, "controlplane", "--etcd-endpoints", "http://"+g.etcd.Addr().String(), "--listen",
		"unix://"+g.file("plane"), "--admin", "127.0.0.1:0",
		"--ledger", ledger.String(), "--pepper", g.file("pepper"), "--admin-token", g.file("admin-token"))
}

// ledgerURL is the ledger's as an earlier control plane has it, or "".
func (g *apartGateway) ledgerURL() string {
	b, _ := os.ReadFile(g.file("ledger"))
	return string(b)
}

// configure waits for the control plane and gives it the configuration and a key.
func (g *apartGateway) configure() {
	g.awaitPlane(g.t)
	pair, err := certs.Ensure(g.Dir, []string{"127.0.0.1"}, time.Now())
	require.NoError(g.t, err)
	port := harness.FreePort(g.t)
	g.Client, g.URL = harness.ClientFor(g.t, g.file(certs.FileCA)), fmt.Sprint("https://127.0.0.1:", port)
	g.apply(g.t, append(g.worker.config(),
		&configv1.Route{Name: "rerank", PathPrefix: "/v1/ocr", Provider: "openai"},
		&configv1.Certificate{Name: "default", Chain: string(pair.Certificate),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}}},
		&configv1.Gateway{Name: "default", Address: "127.0.0.1", Port: uint32(port)})...)
	create := append([]string{"key", "create", "--name", "test", "--rph", "1000000", "-o", "json"}, g.server(g.t)...)
	g.Key = harness.Decode(g.t, harness.Must(g.t, "", create...))["key"].(string)
	g.client = g.As(g.Key)
}

// server are the flags of a command that asks the control plane.
func (g *apartGateway) server(t testing.TB) []string {
	t.Helper()
	return []string{"--server", g.Admin, "--token", g.File(t, "admin-token")}
}

func (g *apartGateway) apply(t testing.TB, objects ...configv1.Object) {
	t.Helper()
	harness.Must(t, harness.Documents(t, objects...), append([]string{"config", "apply", "-f", "-"}, g.server(t)...)...)
}

// awaitPlane waits until the control plane is ready.
func (g *apartGateway) awaitPlane(t testing.TB) {
	t.Helper()
	line := g.plane.WaitFor(t, "control plane started")
	g.Admin = "http://" + gjson.Get(line[strings.Index(line, "{"):], "admin").Str
	harness.Eventually(t, "the control plane is ready", func() error {
		response, err := http.Get(g.Admin + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
			return fmt.Errorf("%w: %s", errNotYet, text)
		}
		return nil
	})
}

func (g *apartGateway) startExtProc() {
	g.extproc = harness.Launch(g.t, nil, "extproc", "--listen", "unix://"+g.file("extproc"), "--admin", "127.0.0.1:0",
		"--spool", g.file("spool"),
		"--limits", "redis://"+g.redis.Addr().String(), "--xds-address", "unix://"+g.file("xds"))
}

func (g *apartGateway) startEnvoy() {
	text := harness.Must(g.t, "", "envoy", "bootstrap", "--extproc", "unix://"+g.file("extproc"), "--admin-socket",
		g.file("envoy-admin"), "--xds-address", "unix://"+g.file("xds"))
	require.NoError(g.t, os.WriteFile(g.file("envoy.yaml"), []byte(text), 0o600))
	cmd := exec.Command(testenv.Envoy(g.t), "-c", g.file("envoy.yaml"), "--disable-hot-restart", "--concurrency", "1",
		"--log-level", "warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.envoy = harness.Start(g.t, cmd)
}

// answers is an error unless a request is answered.
func (g *apartGateway) answers() error {
	r, err := g.try(g.Key, chatPath, chatOf("openai/m", 2, ""))
	if err == nil && r.status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", r.status, r.body)
	}
	return err
}

func (g *apartGateway) awaitService(t testing.TB) {
	t.Helper()
	harness.Eventually(t, "service", g.answers)
}

// slowService stops the ext_proc service for longer than Envoy would wait by itself.
func slowService(t *testing.T, g *apartGateway) {
	for _, more := range []string{"", `,"stream":true`} {
		g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
			if a.body.Get("stream").Bool() {
				write(w, openAI.stream(counted)...)
				return
			}
			answerLine(w, r, a)
		})
		testenv.Pause(t, g.extproc.PID())
		time.AfterFunc(time.Second, func() { _ = syscall.Kill(g.extproc.PID(), syscall.SIGCONT) })
		began := time.Now()
		r := g.ask(t, g.Key, chatPath, chatOf("openai/m", 2, more))
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Greater(t, time.Since(began), 500*time.Millisecond, "it was slow")
	}
}

func failsClosed(t *testing.T, g *apartGateway) {
	g.extproc.Kill()
	for _, key := range []string{g.Key, "none"} {
		for path, body := range map[string]string{
			chatPath: chatOf("openai/m", 2, ""), "/v1/embeddings": `{"model":"openai/m","input":"hi"}`, "/v1/ocr": "{}",
			"/v1/ocr/deep": "not JSON",
			"/v1/files":    "{}", "/v1/models": "", "/v1/responses": "{}", "/elsewhere": "",
		} {
			a := g.As(key).Do(t, http.MethodPost, path, body, names.HeaderProvider, "openai", "X-Request-Id", "closed")
			require.Equal(t, http.StatusServiceUnavailable, a.Status, "%s: %s", path, a.Body)
			require.Equal(t, "gateway_unavailable", a.Failure(t).Code, path)
		}
	}
	require.Zero(t, g.reached(), "nothing has passed")
	g.startExtProc()
	g.awaitService(t)
}

// manyModels are models of about 12 KB each.
func manyModels(n int) []configv1.Object {
	all := make([]configv1.Object, n)
	for i := range all {
		m := &configv1.Model{Name: fmt.Sprintf("many-%d", i)}
		for j := range 100 {
			m.Targets = append(m.Targets, &configv1.Target{Provider: "openai",
				Model: fmt.Sprint(j, "-", strings.Repeat("m", 100))})
		}
		all[i] = m
	}
	return all
}

// interruptedReads has the connections of a control plane that starts broken in the midst of what it reads.
func interruptedReads(t *testing.T, g *apartGateway) {
	const n = 60
	g.apply(t, manyModels(n)...)
	every := func() error {
		for i := range n {
			if err := g.has(fmt.Sprint("many-", i)); err != nil {
				return err
			}
		}
		return g.answers()
	}
	harness.Eventually(t, "configuration in force", every)
	g.plane.Kill()
	g.etcd.breakAfter(100 << 10)
	before := g.etcd.broken.Load()
	g.startPlane()
	harness.Eventually(t, "its reads are interrupted", func() error {
		require.NoError(t, every(), "what was published stays whole")
		if g.etcd.broken.Load() < before+4 {
			return errNotYet
		}
		return nil
	})
	g.etcd.breakAfter(-1)
	g.awaitPlane(t)
	g.apply(t, &configv1.Model{Name: "after", Targets: []*configv1.Target{{Provider: "openai", Model: "m"}}})
	harness.Eventually(t, "a change", func() error { return g.has("after") })
	require.NoError(t, every())
}

func largeConfiguration(t *testing.T, g *apartGateway) {
	const n, atOnce = 600, 60
	objects := manyModels(n)
	for i := 0; i < n; i += atOnce { // the admin API takes so much at once
		g.apply(t, objects[i:i+atOnce]...)
	}
	before := g.xds.passed.Load()
	harness.Eventually(t, "configuration in force", func() error { return g.has("many-0", fmt.Sprint("many-", n-1)) })
	g.extproc.Kill() // and all of it at once
	g.startExtProc()
	harness.Eventually(t, "configuration in force again",
		func() error { return g.has("many-0", fmt.Sprint("many-", n-1)) })
	whole := g.xds.passed.Load() - before
	require.Greater(t, whole, int64(6<<20), "more than a message of gRPC is by default")
	before = g.xds.passed.Load()
	g.apply(t, &configv1.Model{Name: "one-more", Targets: []*configv1.Target{{Provider: "openai", Model: "m"}}})
	harness.Eventually(t, "a change", func() error { return g.has("one-more") })
	require.Less(t, g.xds.passed.Load()-before, int64(256<<10))
}
