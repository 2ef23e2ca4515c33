package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/testenv"
)

// A running is one run command, in this process.
type running struct {
	data   string
	banner string
	stderr bytes.Buffer // not read before stop has returned
	cancel context.CancelFunc
	exit   chan int
}

// startRun runs the command until it says that it is ready.
func startRun(t *testing.T, data string, args ...string) *running {
	t.Helper()
	r := &running{data: data, exit: make(chan int, 1)}
	r.start(t, &r.stderr, args...)
	return r
}

func (r *running) start(t *testing.T, stderr io.Writer, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	out, stdout := io.Pipe()
	args = append([]string{
		"run", "--data", r.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--envoy", testenv.Envoy(t), "--concurrency", "1", "--grace", "10s",
	}, args...)
	go func() {
		code := execute(ctx, args, stdout, stderr)
		stdout.Close()
		r.exit <- code
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			t.Cleanup(func() { r.stop(t) })
			return
		}
		r.banner += lines.Text() + "\n"
	}
	cancel()
	require.FailNow(t, "it ended before it was ready", "exit code %d\n%s", <-r.exit, r.stderr.String())
}

// stop stops the command once and expects that it ends well.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	require.Equal(t, exitOK, <-r.exit, "%s", &r.stderr)
	require.NotContains(t, r.stderr.String(), `"level":"error"`)
}

func (r *running) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.data, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// client trusts the authority of the data folder.
func (r *running) client(t *testing.T) *http.Client {
	t.Helper()
	authorities := x509.NewCertPool()
	require.True(t, authorities.AppendCertsFromPEM([]byte(r.file(t, certs.FileCA))))
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities},
		ForceAttemptHTTP2: true}}
}

// chat asks the built-in provider, as the banner tells, and returns the status and the answer.
func (r *running) chat(t *testing.T, key string) (status int, body string) {
	t.Helper()
	client := r.client(t)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.file(t, datadir.FileURL)+
		"/v1/chat/completions",
		strings.NewReader(`{"model": "echo/echo", "messages": [{"role": "user", "content": "Hello"}]}`))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func TestRunServesAndKeepsWhatItHasWhenItIsStartedAgain(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	first := startRun(t, data)
	require.Contains(t, first.banner, first.file(t, datadir.FileURL)+"/v1")
	key := first.file(t, datadir.FileKey)
	require.NotContains(t, first.banner, key, "the key is in its file alone")
	status, body := first.chat(t, key)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "Hello")
	status, body = first.chat(t, "sk-mg-wrong")
	require.Equal(t, http.StatusUnauthorized, status, body)

	for name, mode := range map[string]os.FileMode{datadir.FileKey: 0o600, datadir.FileAdminToken: 0o600,
		datadir.FilePepper: 0o600, certs.FileCA: 0o644} {
		info, err := os.Stat(filepath.Join(data, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	client := first.client(t)
	ready, err := client.Get(first.file(t, datadir.FileAdmin) + "/readyz")
	require.NoError(t, err)
	require.NoError(t, ready.Body.Close())
	require.Equal(t, http.StatusOK, ready.StatusCode)
	client.CloseIdleConnections()

	var stderr bytes.Buffer
	require.Equal(t, exitFailed, execute(t.Context(), []string{"run", "--data", data, "--listen", "127.0.0.1:0"},
		io.Discard, &stderr))
	require.Contains(t, stderr.String(), "another modelgate runs in")

	authority := first.file(t, certs.FileCA)
	first.stop(t)
	require.NoFileExists(t, filepath.Join(data, datadir.FileURL))
	require.NoFileExists(t, filepath.Join(data, datadir.FileAdmin))

	second := startRun(t, data)
	require.Equal(t, key, second.file(t, datadir.FileKey))
	require.Equal(t, authority, second.file(t, certs.FileCA))
	status, body = second.chat(t, key)
	require.Equal(t, http.StatusOK, status, body)
}
