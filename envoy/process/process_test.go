package process_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/testenv"
)

func TestMain(m *testing.M) {
	if binary := os.Getenv(parentOf); binary != "" {
		parent(binary)
		return
	}
	goleak.VerifyTestMain(m)
}

// parentOf names the Envoy of which the test's own binary, started again, is the parent.
const parentOf = "TEST_PARENT_BINARY"

// parent starts an Envoy, and runs until it is killed.
func parent(binary string) {
	p, err := process.Start(context.Background(), process.Options{
		Binary:      binary,
		Config:      os.Getenv("TEST_PARENT_CONFIG"),
		AdminSocket: os.Getenv("TEST_PARENT_SOCKET"),
		Concurrency: 1,
		Log:         zap.NewNop(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, _ = fmt.Println("pid", p.Pid())
	select {}
}

type object = map[string]any

// config is an Envoy with one plain listener, on a port that the system chooses, in front of upstream.
func config(t *testing.T, adminSocket, upstream string) []byte {
	host, port, err := net.SplitHostPort(upstream)
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	any := func(name string, fields object) object {
		fields["@type"] = "type.googleapis.com/envoy.extensions.filters." + name
		return fields
	}
	manager := any("network.http_connection_manager.v3.HttpConnectionManager", object{
		"stat_prefix": "edge",
		"route_config": object{"virtual_hosts": []object{{
			"name": "all", "domains": []string{"*"},
			"routes": []object{{"match": object{"prefix": "/"}, "route": object{"cluster": "upstream", "timeout": "0s"}}},
		}}},
		"http_filters": []object{{"name": "router", "typed_config": any("http.router.v3.Router", object{})}},
	})
	text, err := json.Marshal(object{
		"admin": object{"address": object{"pipe": object{"path": adminSocket, "mode": 0o600}}},
		"static_resources": object{
			"listeners": []object{{
				"name":    "default",
				"address": object{"socket_address": object{"address": "127.0.0.1", "port_value": 0}},
				"filter_chains": []object{{"filters": []object{{
					"name": "envoy.filters.network.http_connection_manager", "typed_config": manager,
				}}}},
			}},
			"clusters": []object{{
				"name": "upstream", "type": "STATIC",
				"load_assignment": object{"cluster_name": "upstream", "endpoints": []object{{"lb_endpoints": []object{{
					"endpoint": object{"address": object{"socket_address": object{"address": host, "port_value": n}}},
				}}}}},
			}},
		},
	})
	require.NoError(t, err)
	return text
}

// options are those of an Envoy in front of a server with handler, and what it logs.
func options(t *testing.T, handler http.Handler) (process.Options, *observer.ObservedLogs) {
	binary := testenv.Envoy(t)
	dir, remove, err := process.SocketDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, remove()) })
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)

	core, logs := observer.New(zap.DebugLevel)
	o := process.Options{
		Binary:      binary,
		Config:      filepath.Join(dir, "envoy.json"),
		AdminSocket: filepath.Join(dir, "admin.sock"),
		Concurrency: 1,
		Log:         zap.New(core),
	}
	require.NoError(t, os.WriteFile(o.Config, config(t, o.AdminSocket, upstream.Listener.Addr().String()), 0o600))
	return o, logs
}

func start(t *testing.T, o process.Options) (p *process.Process, url string) {
	p, err := process.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(context.Background(), 0) })
	bound, err := p.AwaitListener(t.Context(), "default")
	require.NoError(t, err)
	return p, "http://" + bound.String()
}

func get(ctx context.Context, url string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
}

func TestEnvoyServesAndItsLinesAreLogged(t *testing.T) {
	o, logs := options(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "hello")
	}))
	p, url := start(t, o)

	answer, err := get(t.Context(), url)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "hello", string(body))

	stats, err := p.Admin().Stats(t.Context(), `^http\.edge\.downstream_rq_total$`)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"http.edge.downstream_rq_total": 1}, stats)

	info, err := os.Stat(o.AdminSocket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	p.Stop(t.Context(), time.Minute)
	lines := logs.FilterMessage("starting main dispatch loop").All()
	require.Len(t, lines, 1)
	require.Equal(t, zap.DebugLevel, lines[0].Level)
	require.Equal(t, "main", lines[0].ContextMap()["component"])
}

func TestStopLetsAStreamFinish(t *testing.T) {
	finish := make(chan struct{})
	o, _ := options(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-finish
		_, _ = io.WriteString(w, "last\n")
	}))
	p, url := start(t, o)
	answer, err := get(t.Context(), url)
	require.NoError(t, err)
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", line)

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		p.Stop(context.Background(), time.Minute)
	}()
	// Draining has begun when the door is closed.
	require.Eventually(t, func() bool {
		refused, err := get(t.Context(), url)
		if err == nil {
			refused.Body.Close()
		}
		return err != nil
	}, 10*time.Second, 10*time.Millisecond)
	select {
	case <-stopped:
		t.Fatal("Envoy was stopped while a stream was open")
	default:
	}
	close(finish)
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "last\n", line)
	_, err = lines.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
	<-stopped
	require.Zero(t, p.Pid())
}

// A retired Envoy takes connections and ends each with its answer; so does the one that follows it, should it die.
func TestRetiredEnvoyStillTakesConnections(t *testing.T) {
	o, _ := options(t, http.NotFoundHandler())
	restarted := make(chan struct{})
	o.Restarted = func(context.Context) { close(restarted) }
	p, url := start(t, o)
	closes := func(url string) bool {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		answer, err := client.Get(url)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.Close
	}
	require.False(t, closes(url))
	require.NoError(t, p.Divert(t.Context(), true))
	require.True(t, closes(url), "what it needs is away")
	require.NoError(t, p.Divert(t.Context(), false))
	require.False(t, closes(url), "and back")
	p.Retire(t.Context())
	require.NoError(t, p.Divert(t.Context(), false), "which does not take back that it ends")
	require.True(t, closes(url))
	require.Error(t, p.Admin().Ready(t.Context()))

	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGKILL))
	<-restarted
	var bound netip.AddrPort
	require.Eventually(t, func() bool {
		all, err := p.Admin().Listeners(t.Context())
		bound = all["default"]
		return err == nil && bound.Port() != 0
	}, 10*time.Second, 10*time.Millisecond)
	require.True(t, closes("http://"+bound.String()))
}

func TestStatisticsAreGivenInPrometheussForm(t *testing.T) {
	o, _ := options(t, http.NotFoundHandler())
	p, _ := start(t, o)
	body, err := p.Admin().Prometheus(t.Context(), `^server\.live$`)
	require.NoError(t, err)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.Equal(t, "# TYPE envoy_server_live gauge\nenvoy_server_live{} 1\n", strings.TrimSuffix(string(text), "\n")+
		"\n")
	p.Stop(t.Context(), 0)
	_, err = p.Admin().Prometheus(t.Context(), "")
	require.Error(t, err)
}

func TestStopGivesUpAfterTheGraceTime(t *testing.T) {
	o, logs := options(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	p, url := start(t, o)
	answer, err := get(t.Context(), url)
	require.NoError(t, err)
	defer answer.Body.Close()

	p.Stop(t.Context(), time.Second)
	require.Zero(t, p.Pid())
	warned := logs.FilterMessage("envoy is stopped before its requests have ended").All()
	require.Len(t, warned, 1)
	require.Equal(t, int64(1), warned[0].ContextMap()["requests"])
	_, err = io.ReadAll(answer.Body)
	require.Error(t, err, "a stream that was cut must not look complete")
}

func TestEnvoyThatDiesIsStartedAgain(t *testing.T) {
	o, logs := options(t, http.NotFoundHandler())
	restarted := make(chan struct{})
	o.Restarted = func(context.Context) { close(restarted) }
	p, _ := start(t, o)
	first := p.Pid()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	<-restarted

	require.NotEqual(t, first, p.Pid())
	_, err := p.AwaitListener(t.Context(), "default")
	require.NoError(t, err)
	require.Len(t, logs.FilterMessage("envoy ended unexpectedly and is started again").All(), 1)
}

// Stop comes while the admin interface of the next child does not answer yet.
func TestAnEnvoyThatWasJustStartedAgainDrains(t *testing.T) {
	o, logs := options(t, http.NotFoundHandler())
	p, _ := start(t, o)
	first := p.Pid()
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Eventually(t, func() bool { return p.Pid() != first && p.Pid() != 0 }, 20*time.Second, time.Millisecond)

	p.Stop(t.Context(), time.Minute)
	require.Empty(t, logs.FilterMessage("envoy could not be told to drain").All())
	require.Empty(t, logs.FilterMessage("envoy is stopped before its requests have ended").All())
}

func TestAnEnvoyThatDoesNotStartSaysWhy(t *testing.T) {
	o, _ := options(t, http.NotFoundHandler())
	require.NoError(t, os.WriteFile(o.Config, []byte(`{"no_such_field": 1}`), 0o600))
	_, err := process.Start(t.Context(), o)
	require.ErrorContains(t, err, "no_such_field")
}

func TestStartEndsWithItsContext(t *testing.T) {
	o, _ := options(t, http.NotFoundHandler())
	o.AdminSocket += ".elsewhere"
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := process.Start(ctx, o)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestSocketDirIsShortAndPrivate(t *testing.T) {
	short, err := os.MkdirTemp("/tmp", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(short)) })
	long := filepath.Join(short, strings.Repeat("long", 30))

	for name, data := range map[string]string{"short": short, "long": long} {
		t.Run(name, func(t *testing.T) {
			dir, remove, err := process.SocketDir(data)
			require.NoError(t, err)
			require.Equal(t, name == "short", strings.HasPrefix(dir, data))
			require.Less(t, len(filepath.Join(dir, "twenty-characters.so")), 101)
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
			left, _, err := process.SocketDir(data)
			require.NoError(t, err)
			require.Equal(t, dir, left, "what names a socket is right after a process was killed, too")
			require.NoError(t, remove())
			require.NoDirExists(t, dir)
			again, _, err := process.SocketDir(data)
			require.NoError(t, err)
			require.Equal(t, dir, again)
			require.NoError(t, os.RemoveAll(again))
		})
	}
}
