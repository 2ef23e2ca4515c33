package monitoring_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A system is the gateway as the chart runs it, a process for each part, but on loopback and with one of each.
type system struct {
	*harness.Gateway
	t         testing.TB
	etcd      *etcdtest.Server
	redis     *redistest.Server
	providers *providers
	hooks     *httptest.Server
	processes map[string]*harness.Process // by the job under which Prometheus scrapes them
	limited   string                      // a key of one request an hour
}

// startSystem starts one whose configuration has what the traffic needs.
func startSystem(t testing.TB) *system {
	t.Helper()
	envoy := testenv.Envoy(t)
	redis := redistest.Start(t)
	dir, err := os.MkdirTemp("", "mg") // a test's own folder is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &system{
		Gateway: &harness.Gateway{Dir: dir}, t: t, etcd: etcdtest.New(t), redis: redis,
		providers: newProviders(t), hooks: newReceiver(t), processes: map[string]*harness.Process{},
	}
	etcd := []string{"--etcd-endpoints", s.etcd.Endpoint()}
	xds := []string{"--xds-address", s.socket("xds")}

	s.start("controlplane", append(etcd, "controlplane", "--listen", s.socket("xds"), "--ledger", "sqlite://"+
		filepath.Join(dir, "ledger.db"),
		"--pepper", filepath.Join(dir, "pepper"), "--admin-token", filepath.Join(dir, "admin-token"))...)
	s.processes["controlplane"].WaitFor(t, "control plane started")
	s.configure()
	s.start("extproc", append(xds, "extproc", "--listen", s.socket("extproc"), "--spool", filepath.Join(dir, "spool"),
		"--limits", redis.URL,
		"--limits-timeout", "5s")...)
	s.start("envoy", append(xds, "envoy", "run", "--envoy", envoy, "--dir", dir, "--extproc", s.socket("extproc"),
		"--concurrency", "1", "--max-heap", "1073741824")...)
	s.start("jobsvc", append(append(xds, etcd...), "jobsvc", "--listen", s.socket("jobs"), "--gateway",
		s.socket("internal"),
		"--blobs", (&url.URL{Scheme: "file", Path: filepath.Join(dir, "blobs")}).String(), "--webhook-network",
		"127.0.0.0/8")...)
	harness.Eventually(t, "service", func() error { return s.chat("echo/echo", s.Key, http.StatusOK) })
	harness.Eventually(t, "the job service answers",
		func() error { return s.As(s.Key).Try(http.MethodGet, "/v1/files", &struct{}{}) })
	return s
}

func (s *system) socket(name string) string { return "unix://" + filepath.Join(s.Dir, name+".sock") }

// start starts a part. Its command may come anywhere in the arguments.
func (s *system) start(name string, args ...string) {
	var command, flags []string
	for i := 0; i < len(args); i++ {
		if strings.HasPrefix(args[i], "--") {
			flags = append(flags, args[i], args[i+1])
			i++
			continue
		}
		command = append(command, args[i])
	}
	s.processes[name] = harness.Launch(s.t, nil, append(append(command, "--admin", "127.0.0.1:0"), flags...)...)
}

// admin waits for the address at which a part shows its metrics.
func (s *system) admin(name string) string {
	line := s.processes[name].WaitFor(s.t, `"admin":"`)
	_, rest, _ := strings.Cut(line, `"admin":"`)
	address, _, _ := strings.Cut(rest, `"`)
	return address
}

// configure stores what the traffic needs.
func (s *system) configure() {
	t := s.t
	pair, err := certs.Ensure(s.Dir, []string{"127.0.0.1"}, time.Now())
	require.NoError(t, err)
	port := harness.FreePort(t)
	s.Client = harness.ClientFor(t, filepath.Join(s.Dir, certs.FileCA))
	s.URL, s.Admin = fmt.Sprintf("https://127.0.0.1:%d", port), "http://"+s.admin("controlplane")
	value := func(v string) *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_Value{Value: v}}
	}
	vendor := func(name string) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: "openai", Endpoint: s.providers.server.URL + "/" + name,
			Credential: value("credential")}
	}
	narrow := vendor("narrow")
	narrow.Concurrency = &configv1.Concurrency{MaxRequests: 1, MaxPending: 10, MaxWait: durationpb.New(9 * time.Second)}
	gone := vendor("gone")
	gone.Endpoint = fmt.Sprintf("http://127.0.0.1:%d", harness.FreePort(t))
	s.apply(
		&configv1.Certificate{Name: "default", Chain: string(pair.Certificate), PrivateKey: value(string(pair.Key))},
		&configv1.Gateway{Name: "default", Address: "127.0.0.1", Port: uint32(port)},
		&configv1.JobService{Name: "default", Address: s.socket("jobs"), Listen: s.socket("internal")},
		&configv1.Provider{Name: "echo", Vendor: "echo", Endpoint: s.providers.echo.URL, Models: []string{"echo"}},
		vendor("good"), vendor("busy"), vendor("broken"), narrow, gone,
		&configv1.Model{Name: "both", Targets: []*configv1.Target{{Provider: "busy", Model: "m"},
			{Provider: "good", Model: "m", Priority: 1}}},
		&configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{
			{Vendors: []string{"openai"}, Models: []string{"m"}, Price: &configv1.Price{Input: "1000", Output: "1000"}},
		}},
		&configv1.Webhook{Name: "hook", Url: s.hooks.URL, Secret: value("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz")},
	)
	s.Key, s.limited = s.createKey(), s.createKey("--rph", "1")
}

// at are the flags that name the control plane.
func (s *system) at() []string {
	return []string{"--server", s.Admin, "--token", s.File(s.t, "admin-token")}
}

func (s *system) apply(objects ...configv1.Object) {
	s.t.Helper()
	harness.Must(s.t, harness.Documents(s.t, objects...), append([]string{"config", "apply", "-f", "-"}, s.at()...)...)
}

func (s *system) createKey(flags ...string) string {
	s.t.Helper()
	made := harness.Must(s.t, "", append(append([]string{"key", "create", "--create-missing", "--name", "test", "-o",
		"json"}, flags...), s.at()...)...)
	return harness.Decode(s.t, made)["key"].(string)
}

// providers play the vendors: one that answers, one that has no room, one that is broken and one that is slow.
type providers struct {
	server, echo *httptest.Server
}

const (
	answered = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	noRoom   = `{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`
	ownFault = `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`
)

func newProviders(t testing.TB) *providers {
	echo := httptest.NewServer(fakeprovider.Handler())
	t.Cleanup(echo.Close)
	server := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status, body := http.StatusOK, answered
		switch {
		case strings.HasPrefix(r.URL.Path, "/busy"):
			w.Header().Set("Retry-After", "1")
			status, body = http.StatusTooManyRequests, noRoom
		case strings.HasPrefix(r.URL.Path, "/broken"):
			status, body = http.StatusInternalServerError, ownFault
		case strings.HasPrefix(r.URL.Path, "/narrow"):
			select { // the time that an answer takes, for others to queue behind it
			case <-time.After(300 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the client may be gone
	})
	return &providers{server: server, echo: echo}
}

// newReceiver takes webhooks.
func newReceiver(t testing.TB) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server
}
