package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"

	"github.com/modelgate/modelgate/test/harness"
)

func TestCases(t *testing.T) {
	cases.Run(t, func(t *testing.T, a, b *cases.Vendor) *cases.Gateway {
		g := startRun(t, t.TempDir())
		harness.Must(t, harness.Documents(t, cases.Config(a, b)...), "config", "apply", "--data", g.Dir, "-f", "-")
		harness.Eventually(t, "configuration in force", func() error { return g.has("smart", "a/gpt-4.1", "b/x") })
		return g.forCases()
	})
}

// TestFirstRequest is the README: start, ask, stop, start again.
func TestFirstRequest(t *testing.T) {
	dir := t.TempDir()
	g := startRun(t, dir)
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, g.URL)
	info, err := os.Stat(filepath.Join(dir, "key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Contains(t, g.Output(), "curl", "the first request, to be pasted")
	require.NotContains(t, g.Output(), g.Key, "the key is in its file, not in the terminal or the log")

	a := g.AsCases().Chat(t, `{"model":"echo/echo","messages":[{"role":"user","content":"hello there"}]}`)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.Contains(t, string(a.Body), "hello there")
	streamed := g.AsCases().Chat(t,
		`{"model":"echo/echo","stream":true,"messages":[{"role":"user","content":"hello there"}]}`).Events(t)
	require.Equal(t, "[DONE]", streamed[len(streamed)-1])

	for _, path := range []string{"/healthz", "/readyz"} {
		status, body := g.adminGet(t, path)
		require.Equal(t, 200, status, body)
	}
	harness.Eventually(t, "both requests are counted", func() error {
		if _, metrics := g.adminGet(t, "/metrics"); !strings.Contains(metrics,
			`modelgate_requests_total{operation="chat/completions",outcome="finished",provider="echo",status="2xx"} 2`) {
			return errStill
		}
		return nil
	})
	g.WaitFor(t, `"model":"echo/echo"`)

	made := harness.Decode(t, harness.Must(t, "", "key", "create", "--data", dir, "--name", "second", "-o", "json"))
	require.NotEmpty(t, made["id"])
	second := made["key"].(string)
	harness.Eventually(t, "the new key works", func() error { return g.accepts(second) })

	g.Stop(t)
	again := startRun(t, dir)
	require.Equal(t, g.Key, again.Key)
	require.NoError(t, again.accepts(g.Key), "keys survive a restart")
	require.NoError(t, again.accepts(second))
	harness.Must(t, "", "key", "revoke", "--data", dir, made["id"].(string))
	harness.Eventually(t, "the revoked key is refused", func() error {
		if err := again.accepts(second); err == nil {
			return errStill
		}
		return nil
	})
	require.NoError(t, again.accepts(g.Key))
}

// TestPlainHTTP shows that nothing but HTTPS is served.
func TestPlainHTTP(t *testing.T) {
	g := startRun(t, t.TempDir())
	response, err := http.Get(strings.Replace(g.URL, "https://", "http://", 1) + "/v1/models")
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		require.NotEqual(t, 2, response.StatusCode/100)
	}
}

// TestAnotherPepperIsRefused holds that a lost or wrong root secret is said at the start. With another, every key
// would just be refused.
func TestAnotherPepperIsRefused(t *testing.T) {
	dir := t.TempDir()
	startRun(t, dir).Stop(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "pepper")))
	out, err := harness.Command(t, "", "run", "--data", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--envoy", testenv.Envoy(t))
	require.Error(t, err)
	require.Contains(t, out, "pepper")
	require.Contains(t, out, "is missing")
	require.NoFileExists(t, filepath.Join(dir, "pepper"), "a wrong one is not written")
}

// TestBadConfigFile holds that --config is read before anything starts, and that errors name file, object and field.
func TestBadConfigFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bad.yaml")
	require.NoError(t,
		os.WriteFile(file, []byte("kind: Model\nname: m\n---\nkind: Provider\nname: p\nvendor: nobody\nurl: x\n"), 0o600))
	out, err := harness.Command(t, "", "run", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--admin",
		"127.0.0.1:0", "--envoy", testenv.Envoy(t), "--config", file)
	require.Error(t, err)
	require.Contains(t, out, "bad.yaml:1:1: Model m: targets:")
	require.Contains(t, out, "bad.yaml:7:1: Provider p: url: unknown field")
	require.NoDirExists(t, filepath.Join(dir, "data", "etcd"))
}
