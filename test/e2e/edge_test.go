package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// TestEnvoysOwnErrors holds that every error which Envoy makes by itself is OpenAI's JSON, names the request, and says
// what to change.
func TestEnvoysOwnErrors(t *testing.T) {
	g := startRun(t, t.TempDir())
	chat := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + g.Key +
		"\r\nContent-Type: application/json\r\n"
	big := 33 << 20
	for _, c := range []struct {
		name, request string
		status        int
		code          string
	}{
		{"33 MiB, announced", chat + fmt.Sprintf("Content-Length: %d\r\n\r\n", big), 413, "request_too_large"},
		{"33 MiB, in chunks", chat + "Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat(" ", 1<<20)), 33) + "0\r\n\r\n", 413,
			"request_too_large"},
		{"a header bomb", chat + "X-Bomb: " + strings.Repeat("b", 40<<10) + "\r\n\r\n", 431, "headers_too_large"},
		{"many headers", chat + strings.Repeat("X-B: b\r\n", 200) + "\r\n", 431, "headers_too_large"},
		{"no host", "GET /v1/models HTTP/1.1\r\n\r\n", 400, "bad_request"},
		{"not HTTP", "HELLO\r\n\r\n", 400, "bad_request"},
		{"HTTP/1.0", "GET /v1/models HTTP/1.0\r\n\r\n", 401, "invalid_api_key"},
		{"a header with an underscore", "GET /v1/models HTTP/1.1\r\nHost: x\r\nX_Internal: 1\r\n\r\n", 400, "bad_request"},
		{"a websocket", "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 403, ""},
		{"a path outside of /v1", "GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", 404, "unknown_url"},
		{"a path that climbs", "GET /v1/../admin/v1/keys HTTP/1.1\r\nHost: x\r\n\r\n", 404, "unknown_url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := g.raw(t, c.request)
			require.Equal(t, c.status, status, "%s", body)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			e := harness.Decode(t, body)["error"].(map[string]any)
			require.NotEmpty(t, e["message"])
			require.Contains(t, e, "param")
			require.NotEmpty(t, e["type"])
			if c.code != "" {
				require.Equal(t, c.code, e["code"])
			}
			require.NotEmpty(t, header.Get("X-Request-Id"))
		})
	}
}

// TestEnvoysOwnErrorsForAnthropicsClients holds the same of the form of Anthropic's errors.
func TestEnvoysOwnErrorsForAnthropicsClients(t *testing.T) {
	g := startRun(t, t.TempDir())
	head := "POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + g.Key +
		"\r\nContent-Type: application/json\r\n"
	for _, c := range []struct {
		name, request string
		status        int
		typ           string
	}{
		{"33 MiB", head + fmt.Sprintf("Content-Length: %d\r\n\r\n", 33<<20), 413, "request_too_large"},
		{"the gateway's own", strings.Replace(head, g.Key, "wrong", 1) + "Content-Length: 2\r\n\r\n{}", 401,
			"authentication_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := g.raw(t, c.request)
			require.Equal(t, c.status, status, "%s", body)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			said := harness.Decode(t, body)
			require.Equal(t, "error", said["type"], body)
			require.Equal(t, c.typ, said["error"].(map[string]any)["type"])
			require.NotEmpty(t, header.Get("X-Request-Id"))
		})
	}
}

// TestEnvoysOwnErrorsForGooglesClients holds the same of the form of Google's errors.
func TestEnvoysOwnErrorsForGooglesClients(t *testing.T) {
	g := startRun(t, t.TempDir())
	status, _, body := g.raw(t, "POST /v1beta/models/echo/echo:generateContent HTTP/1.1\r\nHost: x\r\nX-Goog-Api-Key: "+g.Key+
		fmt.Sprintf("\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 33<<20))
	require.Equal(t, 413, status, body)
	e := harness.Decode(t, body)["error"].(map[string]any)
	require.EqualValues(t, 413, e["code"])
	require.Equal(t, "INVALID_ARGUMENT", e["status"])
	require.NotEmpty(t, e["message"])
}

// TestHTTP10 holds that clients of HTTP/1.0, which know no chunks, get whole answers and streams, and that a HEAD has
// no body.
func TestHTTP10(t *testing.T) {
	g := startRun(t, t.TempDir())
	ask := func(request, body string) (int, http.Header, string) {
		return g.raw(t,
			fmt.Sprintf("%s HTTP/1.0\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				request, g.Key, len(body), body))
	}
	for body, want := range map[string]string{
		`{"model":"echo/echo","messages":[{"role":"user","content":"Hello"}]}`:               `"content":"Hello"`,
		`{"model":"echo/echo","stream":true,"messages":[{"role":"user","content":"Hello"}]}`: "data: [DONE]",
	} {
		status, header, answer := ask("POST /v1/chat/completions", body)
		require.Equal(t, http.StatusOK, status, answer)
		require.Contains(t, answer, want)
		require.Empty(t, header.Values("Transfer-Encoding"))
	}
	head, err := http.NewRequestWithContext(t.Context(), http.MethodHead, g.URL+"/v1/models", nil)
	require.NoError(t, err)
	head.Header.Set("Authorization", "Bearer "+g.Key)
	answer, err := g.Client.Do(head)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Positive(t, answer.ContentLength)
}

// raw sends bytes over TLS, as no client library would, and reads one answer.
func (g *gateway) raw(t *testing.T, request string) (int, http.Header, string) {
	t.Helper()
	conn := g.dial(t)
	defer func() { _ = conn.Close() }()
	go func() { _, _ = conn.Write([]byte(request)) }() // the answer may come before all is written
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var b strings.Builder
	_, err = bufio.NewReader(response.Body).WriteTo(&b)
	require.NoError(t, err)
	return response.StatusCode, response.Header, b.String()
}

// dial opens a connection for HTTP/1.1.
func (g *gateway) dial(t *testing.T) net.Conn {
	t.Helper()
	config := g.Client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", strings.TrimPrefix(g.URL, "https://"),
		config)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return conn
}

// TestModelsByEscapedName is how new SDKs ask for a model whose name has a slash.
func TestModelsByEscapedName(t *testing.T) {
	g := startRun(t, t.TempDir())
	status, err := g.get("/v1/models/echo%2Fecho", g.Key)
	require.NoError(t, err)
	require.Equal(t, 200, status)
}

// TestUnreachableProvider covers what Envoy answers where no provider can be reached in time.
func TestUnreachableProvider(t *testing.T) {
	g := startRun(t, t.TempDir())
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	harness.Must(t, fmt.Sprintf(`
kind: Provider
name: gone
vendor: openai
endpoint: http://127.0.0.1:%d
---
kind: Provider
name: silent
vendor: openai
endpoint: http://%s
timeouts: {first_byte: 0.2s}
---
kind: Model
name: rescued
targets: [{provider: gone, model: x}, {provider: silent, model: x, priority: 1}, {provider: echo, model: echo, priority: 2}]
timeouts: {first_byte: 0.2s}
`, harness.FreePort(t), silent.Addr()), "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("gone/x", "silent/x", "rescued") })
	for _, c := range []struct {
		model     string
		status    int
		code      string
		anthropic string // the type of the error for Anthropic's clients
	}{
		{"gone/x", 503, "upstream_unavailable", "overloaded_error"},
		{"silent/x", 504, "upstream_timeout", "timeout_error"},
	} {
		status, body, err := g.post("/v1/chat/completions", g.Key, `{"model":"`+c.model+
			`","messages":[{"role":"user","content":"hi"}]}`)
		require.NoError(t, err)
		require.Equal(t, c.status, status, body)
		require.Equal(t, c.code, harness.Decode(t, body)["error"].(map[string]any)["code"])
		status, body, err = g.post("/v1/messages", g.Key, `{"model":"`+c.model+
			`","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
		require.NoError(t, err)
		require.Equal(t, c.status, status, body)
		require.Equal(t, c.anthropic, harness.Decode(t, body)["error"].(map[string]any)["type"], body)
	}
	status, body, err := g.post("/v1/chat/completions", g.Key,
		`{"model":"rescued","messages":[{"role":"user","content":"hi"}]}`)
	require.NoError(t, err)
	require.Equal(t, 200, status, body)
}

// TestStopDrains holds that a stream in flight is finished, not cut, when the gateway is told to stop.
func TestStopDrains(t *testing.T) {
	g := startRun(t, t.TempDir())
	stream := g.openStream(t, 1<<20)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.Stop(t)
	}()
	g.WaitFor(t, "stopping")
	require.NoError(t, drain(stream))
	<-stopped
	require.NoError(t, g.Err)
}

// TestLargeBodies sends what is just allowed, and gets as much back.
func TestLargeBodies(t *testing.T) {
	g := startRun(t, t.TempDir())
	text := strings.Repeat("x", 31<<20)
	status, body, err := g.post("/v1/chat/completions", g.Key,
		`{"model":"echo/echo","messages":[{"role":"user","content":"`+text+`"}]}`)
	require.NoError(t, err)
	require.Equal(t, 200, status, body[:min(len(body), 500)])
	require.Greater(t, len(body), len(text))
}

// TestOneStreamForARequest holds what the design saves: one gRPC stream for a request, and one more for each retry.
func TestOneStreamForARequest(t *testing.T) {
	g := startRun(t, t.TempDir())
	failing := cases.NewProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	harness.Must(t, "kind: Provider\nname: failing\nvendor: openai\nendpoint: "+failing.URL+
		"\n---\nkind: Model\nname: retried\ntargets: [{provider: failing, model: x}, {provider: echo, model: echo, priority: 1}]\n",
		"config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("retried") })
	streams := func(model string, requests int) int64 {
		// Access logs, and what the job service asks meanwhile, have streams of their own.
		opened := func() int64 { return g.envoyStat(t, `(http\.edge|cluster\..+)\.ext_proc\.streams_started`) }
		before := opened()
		for range requests {
			status, body, err := g.post("/v1/chat/completions", g.Key, `{"model":"`+model+
				`","messages":[{"role":"user","content":"hi"}]}`)
			require.NoError(t, err)
			require.Equal(t, 200, status, body)
		}
		return opened() - before
	}
	require.EqualValues(t, 20, streams("echo/echo", 20))
	require.EqualValues(t, 40, streams("retried", 20))
}

// envoyStat returns the sum of the counters whose names match, from Envoy's admin interface.
func (g *gateway) envoyStat(t *testing.T, name string) int64 {
	t.Helper()
	socket := filepath.Join(g.Dir, "run", "envoy-admin.sock")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://envoy/stats?filter=" + url.QueryEscape("^"+name+"$"))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	sum := int64(0)
	for line := range strings.Lines(string(text)) {
		_, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		require.True(t, ok, "%s", text)
		n, err := strconv.ParseInt(value, 10, 64)
		require.NoError(t, err)
		sum += n
	}
	return sum
}
