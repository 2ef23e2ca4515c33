package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// startSupervised starts the parts of a split as a cluster does, with Envoy under "envoy run".
func (s *split) startSupervised(args ...string) {
	s.planes[0] = s.startPlane(0)
	s.startExtProc()
	s.superviseEnvoy(args...)
	harness.Eventually(s.t, "it says what it waits for", func() error {
		if status, body := s.supervisor("/readyz"); status != http.StatusServiceUnavailable ||
			!strings.Contains(body, "no gateway listens") {
			return errors.New(body)
		}
		return nil
	})
	s.planes[1] = s.planes[0]
	s.configure()
	s.awaitService()
}

func (s *split) superviseEnvoy(args ...string) {
	base := []string{"envoy", "run", "--envoy", testenv.Envoy(s.t), "--dir", s.Dir, "--extproc", s.socket("extproc"),
		"--admin", "127.0.0.1:0", "--concurrency", "1"}
	s.envoy = harness.Launch(s.t, nil, append(append(base, args...), s.client...)...)
	s.envoy.WaitFor(s.t, "envoy is being started")
}

// supervisor asks the admin address of "envoy run".
func (s *split) supervisor(path string) (int, string) {
	s.t.Helper()
	answer, err := http.Get(adminURL(s.t, s.envoy) + path)
	require.NoError(s.t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, answer.Body.Close())
	return answer.StatusCode, string(body)
}

func (s *split) awaitReady(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "ready", func() error {
		status, body := s.supervisor("/readyz")
		if status != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
}

// envoyPID is the process id that the supervisor logged last.
func (s *split) envoyPID(t *testing.T) int {
	t.Helper()
	pid := 0
	for _, line := range s.envoy.Lines() {
		if strings.Contains(line, `"envoy started"`) {
			pid = int(harness.Decode(t, line)["pid"].(float64))
		}
	}
	require.NotZero(t, pid)
	return pid
}

// A heldProvider begins a stream and ends it when it is told to.
type heldProvider struct {
	*httptest.Server
	finish chan struct{}
}

func newHeldProvider(t *testing.T) *heldProvider {
	p := &heldProvider{finish: make(chan struct{})}
	chunk := func(delta, finish string) string {
		return fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"held\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk(`{"role":"assistant","content":"first"}`, "null"))
		w.(http.Flusher).Flush()
		select {
		case <-p.finish:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, chunk(`{"content":"last"}`, "null")+chunk(`{}`, `"stop"`)+"data: [DONE]\n\n")
	}))
	t.Cleanup(p.Close)
	return p
}

// open opens a stream of the held provider and reads its beginning.
func (s *split) openHeld(t *testing.T) (*http.Response, *bufio.Reader) {
	t.Helper()
	response := s.openModel(t, "held/held", "hi")
	body := bufio.NewReader(response.Body)
	line, err := body.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "first")
	return response, body
}

// newConnection asks over a connection of its own, and reports whether the answer says that the connection ends.
func (s *split) newConnection() (closes bool, err error) {
	transport := s.Client.Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = false
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodGet, s.URL+"/v1/models", http.NoBody)
	if err != nil {
		return false, err
	}
	r.Header.Set("Authorization", "Bearer "+s.Key)
	answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return false, err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("status %d", answer.StatusCode)
	}
	return answer.Close, nil
}

func TestEnvoyRun(t *testing.T) {
	s := newSplit(t)
	s.listen[0] = s.socket("xds0")
	s.client = []string{"--xds-address", s.listen[0]}
	const delay = 3 * time.Second
	s.startSupervised("--shutdown-delay", delay.String(), "--grace", "2m")
	held := newHeldProvider(t)
	harness.Must(t, harness.Documents(t, &configv1.Provider{Name: "held", Vendor: "compatible", Endpoint: held.URL +
		"/v1"}),
		append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	s.awaitReady(t)

	t.Run("statistics are Envoy's and bounded", s.boundedStatistics)
	t.Run("Envoy that is killed is started again", func(t *testing.T) {
		before := s.envoyPID(t)
		require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
		s.envoy.WaitFor(t, "envoy ended unexpectedly")
		harness.Eventually(t, "another Envoy", func() error {
			if s.envoyPID(t) == before {
				return errStill
			}
			return nil
		})
		s.awaitReady(t)
		s.awaitService()
	})
	t.Run("it goes on while the ext_proc service is away", func(t *testing.T) {
		s.extproc.Kill()
		require.NoError(t, os.Remove(filepath.Join(s.Dir, "extproc.sock")))
		status, _, err := s.post("/v1/chat/completions", s.Key,
			`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, status)
		harness.Eventually(t, "it says so, and nothing new is to be sent there", func() error {
			if status, reason := s.supervisor("/readyz"); status != http.StatusServiceUnavailable ||
				!strings.Contains(reason, "ext_proc service is unavailable") {
				return errors.New(reason)
			}
			return nil
		})
		s.startExtProc()
		s.awaitService()
		s.awaitReady(t)
	})
	t.Run("it ends gracefully", func(t *testing.T) { s.endsGracefully(t, held, delay) })
}

// boundedStatistics checks that what operators look at is there under the names that Prometheus knows, and little
// else.
func (s *split) boundedStatistics(t *testing.T) {
	var text string
	harness.Eventually(t, "histograms, which Envoy gathers every few seconds", func() error {
		var status int
		status, text = s.supervisor("/metrics")
		require.Equal(t, http.StatusOK, status, text)
		if !strings.Contains(text, "envoy_http_downstream_rq_time_bucket{") {
			return errStill
		}
		return nil
	})
	for _, name := range []string{
		"envoy_http_downstream_rq_active{", "envoy_http_downstream_rq_xx{", "envoy_cluster_upstream_rq_xx{",
		"envoy_cluster_upstream_rq_active{", "envoy_cluster_upstream_cx_active{", "envoy_listener_downstream_cx_active{",
		"envoy_server_memory_allocated{",
		"envoy_server_uptime{", "envoy_control_plane_connected_state{", "envoy_server_days_until_first_cert_expiring{",
		"envoy_http_ext_proc_streams_started{",
	} {
		require.Contains(t, text, "\n"+name)
	}
	require.Regexp(t, `envoy_server_days_until_first_cert_expiring\{\} 36[0-9]\n`, text, "certificates of SDS count")
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, "{"); ok && !strings.HasPrefix(line, "#") {
			names[name] = true
			require.True(t, strings.HasPrefix(name, "envoy_"), line)
		}
	}
	require.Less(t, len(names), 120)
	require.Less(t, len(text), 200<<10)
	t.Logf("%d names, %d bytes", len(names), len(text))
	require.Less(t, ownMemory(t, s.envoy.PID()), 40<<20, "the supervisor itself is small")
}

// ownMemory is how much memory a process has of its own, in bytes, its program's text apart; 0 where the system does
// not say.
func ownMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	t.Logf("supervisor: %d kB", kilobytes)
	return kilobytes << 10
}

func (s *split) endsGracefully(t *testing.T, held *heldProvider, delay time.Duration) {
	response, body := s.openHeld(t)
	defer func() { _ = response.Body.Close() }()
	closes, err := s.newConnection()
	require.NoError(t, err)
	require.False(t, closes)

	began := time.Now()
	require.NoError(t, syscall.Kill(s.envoy.PID(), syscall.SIGTERM))
	s.envoy.WaitFor(t, `"stopping"`)
	status, reason := s.supervisor("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status, "it takes no more traffic from now on")
	require.Contains(t, reason, "ending")
	status, _ = s.supervisor("/healthz")
	require.Equal(t, http.StatusOK, status)

	served := 0
	harness.Eventually(t, "no more connections", func() error {
		closes, err := s.newConnection()
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil
		case err != nil:
			return err
		case closes:
			served++
		}
		return errStill
	})
	refused := time.Since(began)
	require.GreaterOrEqual(t, refused, delay, "connections are taken for the whole of the delay")
	require.Positive(t, served, "and answers on them say that the connection ends")
	require.False(t, s.envoy.Ended(), "a stream is still running")

	close(held.finish)
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Contains(t, string(rest), "last")
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), "the stream ends whole")
	finished := time.Now()
	<-s.envoy.Done
	require.NoError(t, s.envoy.Err, "exit code 0")
	took := time.Since(finished)
	require.Less(t, took, 20*time.Second, "it ends with the last request, not with the grace time")
	t.Logf("connections refused after %v, %d answers with connection: close, ended %v after the last request", refused,
		served, took)
	require.NotContains(t, s.envoy.Output(), "stopped before its requests")
}

// TestEnvoyRunEndsWhatCannotStart has a supervisor whose Envoy cannot start say so and end.
func TestEnvoyRunEndsWhatCannotStart(t *testing.T) {
	dir, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := func(args ...string) string {
		out, err := harness.Command(t, "", append([]string{"envoy", "run", "--envoy", testenv.Envoy(t), "--dir", dir,
			"--admin", "127.0.0.1:0"}, args...)...)
		require.Error(t, err)
		return out
	}
	require.Contains(t, run("--node", ""), "a node id")
	require.Contains(t, run("--xds-address", "127.0.0.1:1", "--xds-cert", "/no/a", "--xds-key", "/no/b", "--xds-ca",
		"/no/c"), "/no/a")
	require.Contains(t, run("--max-connections=-1"), "MaxActiveDownstreamConnections", "what Envoy refuses is the error")
}
