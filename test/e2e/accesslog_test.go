package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// TestAccessLog holds that every request has one line, which says how it ended and who cut it.
func TestAccessLog(t *testing.T) {
	g := startRun(t, t.TempDir())
	begun := make(chan struct{})
	breaks := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-begun:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	})
	harness.Must(t, "kind: Provider\nname: breaks\nvendor: openai\nendpoint: "+breaks.URL+"\n", "config", "apply",
		"--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("breaks/x") })

	_, err := g.get("/v1/models", "wrong")
	require.NoError(t, err)
	g.WaitFor(t, `"status":401,"outcome":"rejected"`)

	status, _, _ := g.raw(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 40000000\r\n\r\n")
	require.Equal(t, 413, status)
	g.WaitFor(t, `"status":413,"outcome":"gateway"`)

	harness.Must(t, fmt.Sprintf("kind: Provider\nname: absent\nvendor: openai\nendpoint: http://127.0.0.1:%d\n",
		harness.FreePort(t)), "config", "apply", "--data", g.Dir, "-f", "-")
	status, refused, err := g.post("/v1/chat/completions", g.Key,
		`{"model":"absent/x","messages":[{"role":"user","content":"hi"}]}`)
	require.NoError(t, err)
	require.Equal(t, 503, status)
	require.Contains(t, refused, `"code":"upstream_unavailable"`)
	g.WaitFor(t, `"status":503,"outcome":"gateway"`)
	g.WaitFor(t, `"error_type":"server_error","error_code":"upstream_unavailable"`)

	left := g.openStream(t, 1<<20)
	require.NoError(t, left.Body.Close())
	g.WaitFor(t, `"outcome":"cancelled","cut_by":"client"`)

	broken := g.openModel(t, "breaks/x", "hi")
	close(begun)
	_, err = io.ReadAll(broken.Body)
	require.Error(t, err)
	g.WaitFor(t, `"outcome":"truncated","cut_by":"provider"`)

	harness.Eventually(t, "both are counted", func() error {
		_, metrics := g.adminGet(t, "/metrics")
		for _, counted := range []string{
			`modelgate_requests_total{operation="chat/completions",outcome="cancelled",provider="echo",status="2xx"} 1`,
			`modelgate_requests_total{operation="chat/completions",outcome="truncated",provider="breaks",status="2xx"} 1`,
		} {
			if !strings.Contains(metrics, counted) {
				return errStill
			}
		}
		return nil
	})

	status, body, err := g.post("/v1/chat/completions", g.Key,
		`{"model":"echo/echo","messages":[{"role":"user","content":"one two"}]}`)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	g.WaitFor(t,
		fmt.Sprintf(`"model":"echo/echo","provider":"echo","upstream_model":"echo","attempts":1,"stream":false,"status":200,"outcome":"finished","cut_by":"","details":"","prompt_tokens":2,"completion_tokens":2,"cached_tokens":0,"reasoning_tokens":0,"bytes_sent":%d`, len(body)))

	g.Stop(t)
	require.Equal(t, 1, strings.Count(g.Output(), `"status":401`))
	require.Equal(t, 1, strings.Count(g.Output(), `"status":413`))
	require.Equal(t, 1, strings.Count(g.Output(), `"outcome":"cancelled"`))
	require.Equal(t, 1, strings.Count(g.Output(), `"outcome":"truncated"`))
	require.Equal(t, 1, strings.Count(g.Output(),
		`"provider":"echo","upstream_model":"echo","attempts":1,"stream":false`))
}
