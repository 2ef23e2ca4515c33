// Package e2e runs the whole gateway as its users do: the binary, the real Envoy, real TLS, real etcd. Only the vendors
// are played.
//
// What a newcomer gets wrong: nothing here may know how the gateway is made. What a test asks, it asks over HTTPS, the
// admin API or the command line.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
)

// binary builds the gateway once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "modelgate-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "modelgate")
	out, err := exec.Command("go", "build", "-o", path, "github.com/modelgate/modelgate/cmd/modelgate").CombinedOutput()
	if err != nil {
		return "", &buildError{out, err}
	}
	return path, nil
})

type buildError struct {
	out []byte
	err error
}

func (e *buildError) Error() string { return e.err.Error() + ":\n" + string(e.out) }

// A process is one of the gateway's.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // valid once done is closed

	mu    sync.Mutex // guards what follows
	lines []string
	seen  *sync.Cond
	ended bool
}

// launch starts the gateway's binary. What it prints is shown where the test fails. It is killed with the test.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.seen = sync.NewCond(&p.mu)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p.cmd.Stdout, p.cmd.Stderr = w, w
	require.NoError(t, p.cmd.Start())
	_ = w.Close()
	go p.read(r)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("%s printed:\n%s", strings.Join(args, " "), p.output())
		}
	})
	return p
}

func (p *process) read(r io.ReadCloser) {
	defer func() { _ = r.Close() }()
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.seen.Broadcast()
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.ended = true
	p.seen.Broadcast()
	p.mu.Unlock()
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// waitFor waits until the process has printed a line with the text, and returns it.
func (p *process) waitFor(t testing.TB, text string) string {
	t.Helper()
	deadline := time.AfterFunc(60*time.Second, func() {
		p.mu.Lock()
		p.ended = true
		p.seen.Broadcast()
		p.mu.Unlock()
	})
	defer deadline.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for from := 0; ; {
		for ; from < len(p.lines); from++ {
			if strings.Contains(p.lines[from], text) {
				return p.lines[from]
			}
		}
		if p.ended {
			t.Fatalf("never printed %q:\n%s", text, strings.Join(p.lines, "\n"))
		}
		p.seen.Wait()
	}
}

// stop sends SIGTERM and waits for the end.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		t.Fatal("did not stop")
	}
}

// kill ends the process, and what it started, at once.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// command runs a command of the gateway's to its end and returns what it printed.
func command(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return string(out) + stderr.String(), err
}

// must is command for those that must succeed.
func must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := command(t, stdin, args...)
	require.NoError(t, err, out)
	return out
}

// A gateway is "modelgate run" in a directory.
type gateway struct {
	*process
	dir, url, admin, key string
	client               *http.Client
}

// startRun starts "modelgate run" and waits until it is ready.
func startRun(t *testing.T, dir string, args ...string) *gateway {
	t.Helper()
	g := &gateway{dir: dir}
	g.process = launch(t, cleanEnv, append([]string{"run", "--data", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--envoy", testenv.Envoy(t)}, args...)...)
	g.waitFor(t, "ready")
	g.url, g.admin, g.key = g.file(t, "url"), g.file(t, "admin"), g.file(t, "key")
	g.client = clientFor(t, filepath.Join(dir, "ca.crt"))
	return g
}

// cleanEnv keeps accounts of whoever runs the tests out of them.
var cleanEnv = []string{"OPENAI_API_KEY=", "ANTHROPIC_API_KEY="}

func (g *gateway) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// clientFor returns a client that trusts a certificate authority and nothing else.
func clientFor(t *testing.T, ca string) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(ca)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// asCases gives the gateway to the shared cases.
func (g *gateway) asCases() *cases.Gateway {
	return &cases.Gateway{URL: g.url, Key: g.key, Client: g.client, Logged: g.logged}
}

// logged waits for the line of the access log of a request.
func (g *gateway) logged(t testing.TB, requestID string) map[string]any {
	line := g.waitFor(t, `"request_id":"`+requestID+`"`)
	return decode(t, line[strings.Index(line, "{"):])
}

// documents renders objects as what "config apply" reads.
func documents(t *testing.T, objects []configv1.Object) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		y, err := configv1.MarshalYAML(o)
		require.NoError(t, err)
		b.WriteString("---\n")
		b.Write(y)
	}
	return b.String()
}

// eventually waits until check succeeds: for what happens in another process, and has no line to wait for.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// adminGet reads from the admin address with the admin token.
func (g *gateway) adminGet(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.admin+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.file(t, "admin-token"))
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(b)
}

func decode(t testing.TB, s string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(s), &m), s)
	return m
}
