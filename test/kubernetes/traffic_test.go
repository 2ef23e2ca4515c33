package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const hello = `{"model":"echo/echo","messages":[{"role":"user","content":"hello"}]}`

func answers(t *testing.T, r *release) {
	l := &load{c: r.gateway, key: r.key}
	for _, kind := range []func(*http.Transport){http1, http2} {
		transport := r.gateway.transport("")
		kind(transport)
		t.Cleanup(transport.CloseIdleConnections)
		c := &http.Client{Transport: transport, Timeout: time.Minute}
		require.NoError(t, l.chat(c, 1))
		require.NoError(t, l.streamOf(5)(c, 1))
	}
	c := *r.gateway
	c.token = "sk-mg-none"
	status, answer, err := c.ask(http.MethodPost, "/v1/chat/completions", hello, "application/json")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status, "%s", answer)
}

// Ten at once on connections of their own, which lead to both data planes, and three are let through.
func limits(t *testing.T, r *release) {
	c := *r.gateway
	c.token = r.newKey(t, `[{"domain":"requests","unit":"HOUR","requests_per_unit":3}]`)
	transport := r.gateway.transport("")
	oneShot(transport)
	c.http = &http.Client{Transport: transport, Timeout: time.Minute}
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	var refusal []byte
	for range 10 {
		all.Go(func() {
			status, answer, err := c.ask(http.MethodPost, "/v1/chat/completions", hello, "application/json")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				status = -1
			}
			got[status]++
			if status == http.StatusTooManyRequests {
				refusal = answer
			}
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{http.StatusOK: 3, http.StatusTooManyRequests: 7}, got)
	var said struct {
		Error struct{ Type, Message string }
	}
	require.NoError(t, json.Unmarshal(refusal, &said), "%s", refusal)
	require.NotEmpty(t, said.Error.Message)
}

// A batch is what the API says of one.
type batch struct {
	ID, Status    string
	OutputFileID  string                                 `json:"output_file_id"`
	RequestCounts struct{ Total, Completed, Failed int } `json:"request_counts"`
}

// newBatch uploads a file of lines for a model and starts a batch of it.
func (r *release) newBatch(t *testing.T, model, text string, lines int) batch {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	require.NoError(t, form.WriteField("purpose", "batch"))
	file, err := form.CreateFormFile("file", "lines.jsonl")
	require.NoError(t, err)
	for i := range lines {
		fmt.Fprintf(file,
			`{"custom_id":"line-%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":%q}]}}`+"\n", i, model, text)
	}
	require.NoError(t, form.Close())
	var uploaded struct{ ID string }
	r.gateway.post(t, "/v1/files", body.Bytes(), form.FormDataContentType(), &uploaded)
	var b batch
	r.gateway.post(t, "/v1/batches", `{"input_file_id":"`+uploaded.ID+
		`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "application/json", &b)
	return b
}

// finished waits for a batch and checks that every line was answered, once.
func (r *release) finished(t *testing.T, b batch, lines int) {
	t.Helper()
	eventually(t, 90*time.Second, "the batch is completed", func() error {
		status, answer, err := r.gateway.ask(http.MethodGet, "/v1/batches/"+b.ID, nil, "")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("%d: %s: %w", status, answer, err)
		}
		require.NoError(t, json.Unmarshal(answer, &b))
		require.NotContains(t, []string{"failed", "expired", "cancelled"}, b.Status, "%s", answer)
		return equal("completed", b.Status)
	})
	require.Equal(t, lines, b.RequestCounts.Completed)
	seen := map[string]int{}
	for line := range strings.Lines(string(r.gateway.get(t, "/v1/files/"+b.OutputFileID+"/content"))) {
		var out struct {
			CustomID string `json:"custom_id"`
			Response struct {
				StatusCode int `json:"status_code"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &out))
		require.Equal(t, http.StatusOK, out.Response.StatusCode, line)
		seen[out.CustomID]++
	}
	require.Len(t, seen, lines)
}

func batches(t *testing.T, r *release) {
	r.finished(t, r.newBatch(t, "echo/echo", "hello", 20), 20)
}
