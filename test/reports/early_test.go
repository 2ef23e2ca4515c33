package reports

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

const (
	times = 100 // each case is asked, by each client
	size  = 300_000
)

// An early is a request that is refused before its body is read.
type early struct {
	name, method, path   string
	key                  string
	contentType, encoded string
	want                 []int // a status of these
}

func (e *early) line() string {
	want := make([]string, len(e.want))
	for i, status := range e.want {
		want[i] = strconv.Itoa(status)
	}
	return strings.Join([]string{e.name, e.method, e.path, "Bearer " + e.key, e.contentType, e.encoded,
		strings.Join(want, ",")}, "\t")
}

// refusals returns the cases. The key spent has used what it may.
func refusals(key, spent string) []early {
	const json, chat = "application/json", "/v1/chat/completions"
	return []early{
		{"a wrong key", "POST", chat, "sk-mg-wrong", json, "", []int{401, 429}}, // 429: of an address that goes on
		{"an unknown path", "POST", "/v1/nowhere", key, json, "", []int{404}},
		{"a wrong method", "PUT", chat, key, json, "", []int{405}},
		{"a wrong content type", "POST", chat, key, "text/csv", "", []int{415}},
		{"a limit", "POST", chat, spent, json, "", []int{429}},
		// 429: of a key that writes too often
		{"jobs, too large", "POST", "/v1/batches", key, json, "", []int{413, 429}},
		{"jobs, compressed", "POST", "/v1/files", key, "multipart/form-data; boundary=x", "gzip", []int{415, 429}},
		{"jobs, no form", "POST", "/v1/files", key, "text/plain", "", []int{415, 429}},
		{"jobs, unknown", "POST", "/v1/uploads/upload_none/cancel", key, json, "", []int{404, 429}},
		{"jobs, wrong path", "POST", "/v1/files/a/b/c", key, json, "", []int{404}},
	}
}

// body is one that is right, but for its size, where it is read: of a limit that is used up it is one in a second.
func body() []byte {
	const before, after = `{"model":"echo/echo","messages":[{"role":"user","content":"`, `"}]}`
	return []byte(before + strings.Repeat("x", size-len(before)-len(after)) + after)
}

// begin starts a gateway with a key that has used what it may, and returns the cases.
func begin(t *testing.T) (*harness.Gateway, []early) {
	g := harness.Run(t, t.TempDir())
	g.Apply(t, &configv1.Organization{Name: "spent",
		Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_DAY, RequestsPerUnit: 1}}})
	_, spent := g.CreateKey(t, "spent", "")
	harness.Eventually(t, "the key has used what it may", func() error {
		if status := chat(t, g, spent); status != http.StatusTooManyRequests {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	return g, refusals(g.Key, spent)
}

// chat asks for a completion, and returns the status.
func chat(t *testing.T, g *harness.Gateway, key string) int {
	return post(t, g.Client, g.URL+"/v1/chat/completions", key,
		strings.NewReader(`{"model":"echo/echo","messages":[{"role":"user","content":"x"}]}`))
}

func post(t *testing.T, client *http.Client, url, key string, body io.Reader) int {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	r.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(t, err)
	return answer.StatusCode
}

func TestEarlyAnswers(t *testing.T) {
	g, all := begin(t)
	t.Run("arrive", func(t *testing.T) { arrive(t, g, all) })
	t.Run("leave a connection of HTTP1 good", func(t *testing.T) { overHTTP1(t, g, all) })
	t.Run("wait for no more than the bounds", func(t *testing.T) { bounded(t, g) })
}

// arrive has all clients ask at the same time, while others go on as always.
func arrive(t *testing.T, g *harness.Gateway, all []early) {
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, body(), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	answered := 0
	beside.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; answered++ {
			<-tick.C
			if status := chat(t, g, g.Key); status != http.StatusOK {
				t.Errorf("a good request beside got %d", status)
			}
		}
	})
	t.Run("clients", func(t *testing.T) {
		t.Run("curl", func(t *testing.T) {
			t.Parallel()
			for _, e := range all {
				t.Run(e.name, func(t *testing.T) { curl(t, g, e, file) })
			}
		})
		t.Run("httpx", func(t *testing.T) {
			t.Parallel()
			interpreter := filepath.Join(testenv.Root(t), ".cache", "reports-python", "bin", "python")
			if _, err := os.Stat(interpreter); err != nil {
				testenv.Missing(t, "httpx", "test/reports/setup.sh")
			}
			report(t, exec.Command(interpreter, "testdata/early.py"), g, all, file)
		})
		t.Run("Java", func(t *testing.T) {
			t.Parallel()
			java, err := exec.LookPath("java")
			if err != nil {
				testenv.Missing(t, "a JDK", "")
			}
			report(t, exec.Command(java, "testdata/Early.java"), g, all, file)
		})
	})
	stop()
	beside.Wait()
	require.Positive(t, answered)
}

// curl asks with ten processes of ten requests.
func curl(t *testing.T, g *harness.Gateway, e early, body string) {
	path, err := exec.LookPath("curl")
	if err != nil {
		testenv.Missing(t, "curl", "")
	}
	const requests = 10
	for range times / requests {
		args := []string{"--http2", "--cacert", filepath.Join(g.Dir, "ca.crt"), "--silent", "--show-error", "--max-time",
			"10", "--request", e.method,
			"--header", "authorization: Bearer " + e.key, "--header", "content-type: " + e.contentType, "--data-binary", "@" +
				body,
			"--write-out", "%{http_version} %{http_code} %{size_download}\n"}
		if e.encoded != "" {
			args = append(args, "--header", "content-encoding: "+e.encoded)
		}
		for range requests {
			args = append(args, "--output", os.DevNull, g.URL+e.path)
		}
		cmd := exec.Command(path, args...)
		cmd.Env = harness.CleanEnv()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		require.Len(t, lines, requests)
		for _, line := range lines {
			var version, status, got int
			_, err := fmt.Sscan(line, &version, &status, &got)
			require.NoError(t, err, line)
			require.True(t, version == 2 && slices.Contains(e.want, status) && got > 0, line)
		}
	}
}

// report runs the program of a client, and makes a subtest of every line that it prints.
func report(t *testing.T, cmd *exec.Cmd, g *harness.Gateway, all []early, body string) {
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = e.line()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd = exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	cmd.Env = append(harness.CleanEnv(), "GATEWAY_URL="+g.URL, "GATEWAY_CA="+filepath.Join(g.Dir, "ca.crt"), "CASES="+
		strings.Join(lines, "\n"),
		"TIMES="+strconv.Itoa(times), "BODY="+body)
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, 10*time.Second
	out, err := cmd.Output()
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		require.Less(t, i, len(all), line)
		t.Run(all[i].name, func(t *testing.T) { require.Equal(t, "ok "+all[i].name, line) })
	}
	require.NoError(t, err, "%s", &stderr)
	require.Equal(t, len(all), bytes.Count(out, []byte("\n")), "cases that did not run")
}
