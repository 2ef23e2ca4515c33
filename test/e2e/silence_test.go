package e2e

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// TestASilentProvider holds that the headers of a stream wait for the first token, no longer than a proxy on the way
// to the client may wait for headers, and that no timeout of the gateway's own parts counts a provider's silence.
func TestASilentProvider(t *testing.T) {
	t.Parallel()
	g := startRun(t, t.TempDir())
	spoke := make(chan time.Time, 1)
	silent := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(delta string) {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{%s},\"finish_reason\":null}]}\n\n",
				delta)
			w.(http.Flusher).Flush()
		}
		chunk(`"role":"assistant","content":""`)
		select {
		case <-time.After(17 * time.Second):
		case <-r.Context().Done():
		}
		spoke <- time.Now()
		chunk(`"content":"at last"`)
		_, _ = io.WriteString(w,
			"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	harness.Must(t, "kind: Provider\nname: silent\nvendor: openai\nendpoint: "+silent.URL+"\n", "config", "apply",
		"--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("silent/x") })

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"silent/x","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	headers := time.Now()
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, 200, response.StatusCode)
	lines := bufio.NewReader(response.Body)
	role, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, role, `"role":"assistant"`)
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Contains(t, string(rest), "at last")
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"), "%s", rest)
	require.True(t, headers.Before(<-spoke), "the headers did not wait for ever")
}

// TestTrailers holds that an answer over HTTP/2 which ends with trailers is whole, and that they stay here.
func TestTrailers(t *testing.T) {
	g := startRun(t, t.TempDir())
	const finish = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n"
	bodies := map[string][2]string{ // by model: content type and body
		"stream":  {"text/event-stream", finish + "data: [DONE]\n\n"},
		"cut":     {"text/event-stream", finish},
		"nothing": {"text/event-stream", ": comment\n\n"},
		"unary": {"application/json",
			`{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`},
	}
	vendor := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		w.Header().Set("Trailer", "X-Vendor")
		w.Header().Set("Content-Type", bodies[asked.Model][0])
		_, _ = io.WriteString(w, bodies[asked.Model][1])
		w.(http.Flusher).Flush()
		w.Header().Set("X-Vendor", r.Proto)
	}))
	vendor.EnableHTTP2 = true
	vendor.StartTLS()
	t.Cleanup(vendor.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vendor.Certificate().Raw})
	harness.Must(t, fmt.Sprintf("kind: Provider\nname: h2\nvendor: openai\nendpoint: %s\ntls: {ca: %q}\n", vendor.URL,
		ca), "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("h2/x") })
	for _, c := range []struct {
		model  string
		stream bool
		status int
		has    string
	}{
		{"stream", true, 200, "data: [DONE]\n\n"},
		{"cut", true, 200, `"code":"upstream_truncated"`},
		{"nothing", true, 502, `"code":"upstream_truncated"`},
		{"unary", false, 200, `"content":"x"`},
	} {
		t.Run(c.model, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
				strings.NewReader(fmt.Sprintf(`{"model":"h2/%s","stream":%t,"messages":[{"role":"user","content":"hi"}]}`, c.model,
					c.stream)))
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+g.Key)
			r.Header.Set("Content-Type", "application/json")
			response, err := g.Client.Do(r)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, c.status, response.StatusCode, "%s", body)
			require.Contains(t, string(body), c.has)
			require.Empty(t, response.Trailer.Get("X-Vendor"))
		})
	}
}

// TestAnAnswerTakesLongOnAQuietGateway holds that Envoy survives it. It forgets clients of gRPC that were not used for
// 50 s, also those whose last stream is just ending.
func TestAnAnswerTakesLongOnAQuietGateway(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	g := startRun(t, t.TempDir())
	slow := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(58 * time.Second):
		case <-r.Context().Done():
		}
		answerLine(w, "at last", 1, 1)
	})
	harness.Must(t, "kind: Provider\nname: slow\nvendor: openai\nendpoint: "+slow.URL+"/v1\n", "config", "apply",
		"--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("slow/x") })
	status, body, err := g.post("/v1/chat/completions", g.Key,
		`{"model":"slow/x","messages":[{"role":"user","content":"hi"}]}`)
	require.NoError(t, err)
	require.Equal(t, 200, status, body)
	require.NoError(t, g.accepts(g.Key))
	require.NotContains(t, g.Output(), "ended unexpectedly")
}
