package sdk

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

// startTimeout is how long the gateway, and a change of its configuration, may take.
const startTimeout = time.Minute

// A gateway is a running one. Its files are in dir.
type gateway struct {
	binary, dir, url, key string
}

// start builds the gateway, starts it with the real Envoy and adds the vendor to it. It is stopped with the test.
func start(t *testing.T, v *vendor) *gateway {
	t.Helper()
	envoy := testenv.Envoy(t)
	g := &gateway{binary: filepath.Join(t.TempDir(), "modelgate"), dir: t.TempDir()}
	out, err := exec.Command("go", "build", "-o", g.binary, "github.com/modelgate/modelgate/cmd/modelgate").CombinedOutput()
	require.NoError(t, err, "%s", out)
	g.launch(t, envoy)
	g.url, g.key = g.file(t, "url"), g.file(t, "key")

	apply := exec.Command(g.binary, "config", "apply", "--data", g.dir, "-f", "-")
	apply.Env = cleanEnv()
	apply.Stdin = strings.NewReader(v.document())
	out, err = apply.CombinedOutput()
	require.NoError(t, err, "%s", out)
	g.waitForModel(t, "claude/text")
	return g
}

// launch runs the gateway and waits for the line that says it is ready.
func (g *gateway) launch(t *testing.T, envoy string) {
	t.Helper()
	cmd := exec.Command(g.binary, "run", "--data", g.dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--envoy", envoy)
	cmd.Env = cleanEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Envoy can be ended with it
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	printed := &output{ready: make(chan struct{}), ended: make(chan struct{})}
	go printed.read(r)
	t.Cleanup(func() {
		stop(cmd, printed.ended)
		if t.Failed() {
			t.Logf("the gateway printed:\n%s", printed)
		}
	})
	select {
	case <-printed.ready:
	case <-printed.ended:
		t.Fatal("the gateway ended before it was ready")
	case <-time.After(startTimeout):
		t.Fatal("the gateway was never ready")
	}
}

// stop asks the gateway to end, and makes it where it does not.
func stop(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(startTimeout):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	_ = cmd.Wait()
}

// output is what the gateway printed.
type output struct {
	ready chan struct{} // closed with the line that says so
	ended chan struct{} // closed when no process of the gateway is left to print

	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) read(r io.ReadCloser) {
	defer close(o.ended)
	defer r.Close()
	seen := false
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		o.mu.Lock()
		o.text.WriteString(line)
		o.mu.Unlock()
		if !seen && strings.Contains(line, "ready") {
			seen = true
			close(o.ready)
		}
		if err != nil {
			return
		}
	}
}

// String returns all that was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (g *gateway) file(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// waitForModel waits until the gateway knows a model, which shows that the configuration is in force.
func (g *gateway) waitForModel(t *testing.T, id string) {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(g.file(t, "ca.crt"))))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	ask := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/v1/models/"+id, http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+g.key)
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, body)
		}
		return err
	}
	deadline := time.After(startTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("the configuration is not in force: %v", err)
		case <-tick.C:
		}
	}
}

// cleanEnv is the environment without what would change a client or lead it beyond this machine: proxies, accounts,
// authorities, tracing.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(e), "=")
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		return strings.HasSuffix(name, "_PROXY") || strings.HasSuffix(name, "_API_KEY") ||
			slices.ContainsFunc([]string{"OPENAI_", "SSL_CERT_", "NODE_", "PYTHON", "LANGCHAIN_", "LANGSMITH_"}, begins)
	})
}
