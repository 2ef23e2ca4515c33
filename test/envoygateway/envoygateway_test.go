// Package envoygateway_test has the real Envoy Gateway, without Kubernetes, translate HTTPRoutes for a real Envoy,
// with the control plane as its extension server. setup.sh builds Envoy Gateway, and without it the cases skip.
//
// The tests run in a network namespace of their own: the ports of Envoy Gateway are fixed.
package envoygateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
	"github.com/modelgate/modelgate/test/realtimevendor"
)

func TestMain(m *testing.M) {
	if code, elsewhere := harness.Alone(); elsewhere {
		os.Exit(code)
	}
	harness.Main(m)
}

// An edge is Envoy Gateway with its Envoy, beside a control plane and an ext_proc service.
type edge struct {
	dir       string
	kube      *cluster // nil: its resources are files
	xds       int
	plane     *harness.Process
	extproc   *harness.Process
	gateway   *harness.Process // Envoy Gateway
	admin     []string         // flags that name the control plane
	resources string           // of Envoy Gateway
	url, key  string
}

func newEdge(t *testing.T, kube bool) *edge {
	t.Helper()
	binary, err := filepath.Abs("../../.cache/envoy-gateway/envoy-gateway")
	require.NoError(t, err)
	if _, err := os.Stat(binary); err != nil {
		testenv.Missing(t, "Envoy Gateway", "test/envoygateway/setup.sh")
	}
	dir, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := &edge{dir: dir, xds: harness.FreePort(t)}
	service := fmt.Sprint("127.0.0.1:", harness.FreePort(t))
	etcd := etcdtest.New(t)
	var ofPlane, ofService []string
	if kube {
		certificates := newPKI(t, filepath.Join(dir, "pki"), "localhost", "dataplane", "extproc")
		e.kube = newCluster(t, dir)
		e.kube.apply(t, certificates.secrets(t))
		ofPlane = slices.Concat([]string{"--kubernetes", "--kubernetes-config", e.kube.kubeconfig, "--kubernetes-namespace",
			"platform", "--xds-dataplane-name", "dataplane", "--envoy-gateway-extproc-name", "extproc"},
			certificates.flags("--xds-", "localhost"), certificates.flags("--envoy-gateway-extproc-", "dataplane"))
		ofService = slices.Concat([]string{"--xds-name", "localhost", "--tls-name", "dataplane"},
			certificates.flags("--xds-", "dataplane"), certificates.flags("--tls-", "extproc"))
	}
	e.plane = harness.Launch(t, nil, append([]string{"controlplane", "--etcd-endpoints", etcd.Endpoint(), "--listen",
		fmt.Sprint("127.0.0.1:", e.xds), "--admin", "127.0.0.1:0", "--ledger",
		(&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, "ledger.db")}).String(), "--pepper",
		filepath.Join(dir, "pepper"), "--admin-token", filepath.Join(dir, "admin-token"),
		"--envoy-gateway-extproc", service}, ofPlane...)...)
	_, rest, ok := strings.Cut(e.plane.WaitFor(t, "control plane started"), `"admin":"`)
	require.True(t, ok)
	admin, _, _ := strings.Cut(rest, `"`)
	token, err := os.ReadFile(filepath.Join(dir, "admin-token"))
	require.NoError(t, err)
	e.admin = []string{"--server", "http://" + admin, "--token", strings.TrimSpace(string(token))}
	e.configure(t)
	at := fmt.Sprint("127.0.0.1:", e.xds)
	e.extproc = harness.Launch(t, nil, append([]string{"extproc", "--listen", service, "--admin", "127.0.0.1:0",
		"--spool", filepath.Join(dir, "spool"), "--limits", "memory", "--xds-address", at}, ofService...)...)
	e.extproc.WaitFor(t, "configuration received")
	if !kube {
		e.startJobs(t, "--xds-address", at, "--extproc", service, "--etcd-endpoints", etcd.Endpoint())
	}
	e.start(t, binary)
	return e
}

// configure stores a gateway, providers, a model with a fallback, and a key.
func (e *edge) configure(t *testing.T) {
	t.Helper()
	pair, err := certs.Ensure(e.dir, []string{"127.0.0.1"}, time.Now())
	require.NoError(t, err)
	echo := httptest.NewServer(fakeprovider.Handler())
	t.Cleanup(echo.Close)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(down.Close)
	e.apply(t,
		&configv1.Provider{Name: "echo", Vendor: "echo", Endpoint: echo.URL, Models: []string{"echo"}},
		&configv1.Provider{Name: "down", Vendor: "compatible", Endpoint: down.URL + "/v1"},
		&configv1.Model{Name: "both", Targets: []*configv1.Target{{Provider: "down", Model: "x"},
			{Provider: "echo", Model: "echo", Priority: 1}}},
		&configv1.Certificate{Name: "default", Chain: string(pair.Certificate),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}}},
		&configv1.Gateway{Name: "default", Port: 443})
	e.key = e.newKey(t, "test")
}

// startJobs starts a job service, and an Envoy of ours for the lines of batches.
func (e *edge) startJobs(t *testing.T, flags ...string) {
	t.Helper()
	socket := func(name string) string { return "unix://" + filepath.Join(e.dir, name+".sock") }
	e.apply(t, &configv1.JobService{Name: "default", Address: socket("jobs"), Listen: socket("internal")})
	harness.Launch(t, nil, "envoy", "run", "--envoy", testenv.Envoy(t), "--dir", filepath.Join(e.dir, "own"), "--admin",
		"127.0.0.1:0", flags[0], flags[1], flags[2], flags[3])
	harness.Launch(t, nil, "jobsvc", "--listen", socket("jobs"), "--gateway", socket("internal"), "--blobs",
		(&url.URL{Scheme: "file", Path: filepath.Join(e.dir, "blobs")}).String(), "--admin", "127.0.0.1:0", flags[0],
		flags[1], flags[4], flags[5])
}

func (e *edge) apply(t *testing.T, objects ...configv1.Object) {
	t.Helper()
	harness.Must(t, harness.Documents(t, objects...), append([]string{"config", "apply", "-f", "-"}, e.admin...)...)
}

func (e *edge) newKey(t *testing.T, name string, flags ...string) string {
	t.Helper()
	args := append([]string{"key", "create", "--name", name, "-o", "json"}, flags...)
	return harness.Decode(t, harness.Must(t, "", append(args, e.admin...)...))["key"].(string)
}

// start starts Envoy Gateway, which starts the Envoy that this repository tests with.
func (e *edge) start(t *testing.T, binary string) {
	t.Helper()
	others := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.URL.Path, r.Header["X-Modelgate-Key"])
	}))
	t.Cleanup(others.Close)
	port := harness.FreePort(t)
	e.url = fmt.Sprint("http://127.0.0.1:", port)
	fill := strings.NewReplacer("DIR", e.dir, "XDS", fmt.Sprint(e.xds), "PORT", fmt.Sprint(port), "OTHERS",
		others.URL[strings.LastIndex(others.URL, ":")+1:])
	e.resources = filepath.Join(e.dir, "resources", "resources.yaml")
	envoy := filepath.Join(e.dir, "data", "envoy-versions", "1.40.0", "bin", "envoy")
	require.NoError(t, os.MkdirAll(filepath.Dir(e.resources), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Dir(envoy), 0o700))
	installed, err := filepath.Abs(testenv.Envoy(t))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(installed, envoy))
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		return string(text)
	}
	settings, resources := read("envoy-gateway.yaml"), fill.Replace(read("resources.yaml"))
	config := filepath.Join(e.dir, "envoy-gateway.yaml")
	cmd := exec.Command(binary, "server", "--config-path", config)
	if e.kube != nil {
		settings = inKubernetes(settings)
		e.kube.prepare(t, e, binary)
		e.kube.apply(t, resources)
		cmd = e.kube.command(e, cmd.Args...)
	} else {
		require.NoError(t, os.WriteFile(e.resources, []byte(resources), 0o600))
		out, err := exec.Command(binary, "certgen", "--local", "--config-home", filepath.Join(e.dir, "config")).
			CombinedOutput()
		require.NoError(t, err, string(out))
	}
	require.NoError(t, os.WriteFile(config, []byte(fill.Replace(settings)), 0o600))
	e.gateway = harness.Start(t, cmd)
	harness.Eventually(t, "a chat through Envoy Gateway", func() error {
		_, err := e.chat(t, e.key, "echo/echo", false)
		return err
	})
}

// chat returns the answer to a request, whose status has to be 200.
func (e *edge) chat(t *testing.T, key, model string, stream bool) (*http.Response, error) {
	t.Helper()
	response, body := e.ask(t, key, "/v1/chat/completions", fmt.Sprintf(
		`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello there"}]}`, model, stream))
	switch {
	case response == nil:
		return nil, errors.New(body)
	case response.StatusCode != http.StatusOK:
		return response, fmt.Errorf("status %d: %s", response.StatusCode, body)
	case stream && !strings.HasSuffix(body, "data: [DONE]\n\n"):
		return response, fmt.Errorf("the stream ends with %s", body)
	}
	return response, nil
}

// ask returns a response and its body, or no response and what was wrong.
func (e *edge) ask(t *testing.T, key, path, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err.Error()
	}
	return response, string(text)
}

// TestEnvoyGateway has the resources in an API server of Kubernetes, which Envoy Gateway watches.
func TestEnvoyGateway(t *testing.T) {
	e := newEdge(t, true)
	t.Run("streams and retries", e.streams)
	t.Run("errors have the form of the API", e.refused)
	t.Run("limits", e.limited)
	t.Run("the ledger", e.recorded)
	t.Run("what has no mark", e.unmarked)
	t.Run("a change", func(t *testing.T) {
		before := e.kube.annotation(t, "models")
		e.second(t)
		harness.Eventually(t, "the second provider", func() error {
			_, err := e.chat(t, e.key, "second/echo", false)
			return err
		})
		require.NotEqual(t, before, e.kube.annotation(t, "models"))
		require.Empty(t, e.kube.annotation(t, "others"))
	})
	t.Run("a session of the Realtime API", e.session)
	t.Run("a provider that moves", e.moved)
	t.Run("the control plane is gone", e.withoutPlane)
	t.Run("the ext_proc service is gone", e.withoutExtProc)
}

// TestFiles has Envoy Gateway without Kubernetes.
func TestFiles(t *testing.T) {
	e := newEdge(t, false)
	t.Run("streams and retries", e.streams)
	t.Run("a batch", func(t *testing.T) {
		client := harness.Client{Gateway: &cases.Gateway{URL: e.url, Key: e.key, Client: http.DefaultClient}}
		harness.Eventually(t, "the job service answers", func() error {
			var files any
			return client.Try(http.MethodGet, "/v1/files", &files)
		})
		id := client.Begin(t, "/v1/chat/completions", harness.ChatLine("a", "echo/echo", "hello"),
			harness.ChatLine("b", "both", "hello"))
		batch := client.Await(t, id)
		require.Equal(t, "completed", batch.Status)
		require.Equal(t, 2, batch.Counts.Completed)
	})
	t.Run("a change comes with the next translation", func(t *testing.T) {
		e.second(t)
		text, err := os.ReadFile(e.resources)
		require.NoError(t, err)
		text = []byte(strings.Replace(string(text), "value: /others}", "value: /other}", 1))
		require.NoError(t, os.WriteFile(e.resources, text, 0o600))
		harness.Eventually(t, "the second provider", func() error {
			_, err := e.chat(t, e.key, "second/echo", false)
			return err
		})
	})
}

func (e *edge) streams(t *testing.T) {
	_, err := e.chat(t, e.key, "echo/echo", true)
	require.NoError(t, err)
	for _, stream := range []bool{false, true} {
		response, err := e.chat(t, e.key, "both", stream)
		require.NoError(t, err)
		require.Equal(t, "2", response.Header.Get("X-Modelgate-Attempts"))
	}
}

func (e *edge) refused(t *testing.T) {
	response, body := e.ask(t, "none", "/v1/chat/completions", `{}`)
	require.Equal(t, http.StatusUnauthorized, response.StatusCode)
	require.Equal(t, "invalid_api_key", gjson.Get(body, "error.code").String(), body)
}

func (e *edge) limited(t *testing.T) {
	key := e.newKey(t, "limited", "--rpm", "2")
	harness.Eventually(t, "the key", func() error {
		_, err := e.chat(t, key, "echo/echo", false)
		return err
	})
	for range 2 {
		response, _ := e.chat(t, key, "echo/echo", false)
		if response.StatusCode == http.StatusTooManyRequests {
			return
		}
	}
	t.Fatal("no request was refused")
}

func (e *edge) recorded(t *testing.T) {
	response, err := e.chat(t, e.key, "both", true)
	require.NoError(t, err)
	id := response.Header.Get("X-Request-Id")
	require.NotEmpty(t, id)
	harness.Eventually(t, "the record of "+id, func() error {
		out, err := harness.Command(t, "", append([]string{"requests", id, "-o", "json"}, e.admin...)...)
		if err == nil && !strings.Contains(out, `"down"`) {
			err = fmt.Errorf("it has %s", out)
		}
		return err
	})
}

func (e *edge) unmarked(t *testing.T) {
	response, body := e.ask(t, "none", "/others/x", `{}`)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	require.Equal(t, "/others/x[]", body)
	require.Empty(t, response.Header.Get("X-Request-Id"))
	response, body = e.ask(t, e.key, "/absent/x", `{}`)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Contains(t, body, `there is no Gateway "absent"`)
	e.plane.WaitFor(t, "rules of HTTPRoutes that are for models have no effect")
}

// second adds a provider, with clusters that the Envoy does not have.
func (e *edge) second(t *testing.T) {
	echo := httptest.NewServer(fakeprovider.Handler())
	t.Cleanup(echo.Close)
	e.apply(t, &configv1.Provider{Name: "second", Vendor: "echo", Endpoint: echo.URL, Models: []string{"echo"}})
}

// session opens a WebSocket at a provider, with a credential that only the ext_proc service has.
func (e *edge) session(t *testing.T) {
	vendor := realtimevendor.New(t)
	e.apply(t, &configv1.Provider{Name: "rt", Vendor: "openai", Endpoint: vendor.URL + "/v1",
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-vendors-own-credential"}}})
	var c *websocket.Conn
	harness.Eventually(t, "a session", func() (err error) {
		var response *http.Response
		c, response, err = websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(e.url, "http")+
			"/v1/realtime?model=rt/talk", http.Header{"Authorization": {"Bearer " + e.key}})
		if err != nil && response != nil {
			err = fmt.Errorf("%w: %s", err, response.Status)
		}
		return err
	})
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, event, err := c.ReadMessage()
	require.NoError(t, err)
	require.JSONEq(t, realtimevendor.Created, string(event))
	require.Equal(t, "Bearer sk-vendors-own-credential", vendor.Last().Header.Get("Authorization"))
}

// moved has a provider move while it is asked. Its clusters have other names then, which the Envoy has before the
// ext_proc service plans with them.
func (e *edge) moved(t *testing.T) {
	e.second(t) // that of another test has ended with it
	asked, stop := make(chan error), make(chan struct{})
	go func() {
		defer close(asked)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := e.chat(t, e.key, "second/echo", false); err != nil {
				asked <- err
				return
			}
		}
	}()
	for range 5 {
		e.second(t)
	}
	close(stop)
	require.NoError(t, <-asked)
}

// withoutPlane has Envoy Gateway translate what it cannot show. The Envoy keeps what it has.
func (e *edge) withoutPlane(t *testing.T) {
	e.plane.Kill()
	e.kube.apply(t, `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: envoy-gateway-system, name: more}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /more}}]
    backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: others}]
`)
	e.gateway.WaitFor(t, "connection refused")
	for range 20 {
		_, err := e.chat(t, e.key, "both", true)
		require.NoError(t, err)
	}
	response, _ := e.ask(t, e.key, "/more/x", `{}`)
	require.Equal(t, http.StatusNotFound, response.StatusCode)
}

func (e *edge) withoutExtProc(t *testing.T) {
	e.extproc.Kill()
	response, body := e.ask(t, e.key, "/v1/chat/completions", `{}`)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "gateway_unavailable", gjson.Get(body, "error.code").String(), body)
	response, _ = e.ask(t, "none", "/others/x", `{}`)
	require.Equal(t, http.StatusOK, response.StatusCode)
}
