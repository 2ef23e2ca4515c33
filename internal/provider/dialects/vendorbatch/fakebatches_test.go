package vendorbatch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// batchID is the gateway's of the batch in these tests.
const batchID = "batch_01JD3T9Q8H6R5W4Z2Y0X9V8N7M"

// A fakeBatches is OpenAI's files and batches, as the documentation has them.
type fakeBatches struct {
	t        *testing.T
	forms    []url.Values // of the uploads
	lines    []string     // of the newest upload
	status   []string     // of the file, one for each look at it; then processed
	files    map[string]func() io.Reader
	batches  []map[string]any // newest first
	lose     int              // answers to creations that do not arrive
	requests []string
}

func (f *fakeBatches) client() *provider.Client {
	send := func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		f.serve(w, r)
		return w.Result(), nil
	}
	c := &provider.Client{DecodeError: openaicompat.DecodeError, Config: &configv1.Provider{Name: "p"}}
	c.Send = func(r *http.Request) (*http.Response, error) {
		answer, err := send(r)
		if file, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/files/"), "/content"); ok && f.files[file] != nil {
			answer.Body = io.NopCloser(f.files[file]())
		}
		if r.Method == http.MethodPost && r.URL.Path == "/batches" && f.lose > 0 {
			f.lose--
			return nil, errors.New("connection reset")
		}
		return answer, err
	}
	return c
}

func (f *fakeBatches) serve(w http.ResponseWriter, r *http.Request) {
	f.requests = append(f.requests, r.Method+" "+r.URL.String())
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/files":
		f.upload(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/batches":
		var b map[string]any
		require.NoError(f.t, json.NewDecoder(r.Body).Decode(&b))
		b["id"], b["object"], b["status"], b["created_at"] = fmt.Sprintf("batch_v%d", len(f.batches)), "batch", "validating",
			1_800_000_000
		f.batches = append([]map[string]any{b}, f.batches...)
		f.json(w, b)
	case r.URL.Path == "/batches":
		f.list(w, r.URL.Query())
	case strings.HasSuffix(r.URL.Path, "/content"):
	case strings.HasPrefix(r.URL.Path, "/files/"):
		f.json(w, f.file())
	default:
		id, cancel := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/batches/"), "/cancel")
		f.one(w, id, cancel)
	}
}

func (f *fakeBatches) upload(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		http.Error(w, `{"error":{"message":"bad form"}}`, http.StatusBadRequest)
		return
	}
	f.forms = append(f.forms, url.Values(r.MultipartForm.Value))
	file, err := r.MultipartForm.File["file"][0].Open()
	require.NoError(f.t, err)
	f.lines = nil
	for s := bufio.NewScanner(file); s.Scan(); {
		f.lines = append(f.lines, s.Text())
	}
	f.json(w, f.file())
}

func (f *fakeBatches) file() map[string]any {
	status := "processed"
	if len(f.status) > 0 {
		status, f.status = f.status[0], f.status[1:]
	}
	return map[string]any{"id": "file-in", "object": "file", "purpose": "batch", "status": status}
}

func (f *fakeBatches) list(w http.ResponseWriter, q url.Values) {
	require.Equal(f.t, "100", q.Get("limit"))
	begin := 0
	for i, b := range f.batches {
		if b["id"] == q.Get("after") {
			begin = i + 1
		}
	}
	end := min(begin+2, len(f.batches))
	f.json(w, map[string]any{"object": "list", "data": f.batches[begin:end], "has_more": end < len(f.batches)})
}

func (f *fakeBatches) one(w http.ResponseWriter, id string, cancel bool) {
	for _, b := range f.batches {
		if b["id"] != id {
			continue
		}
		if cancel && b["status"] == "completed" {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w,
				`{"error":{"message":"Cannot cancel a batch with status 'completed'.","type":"invalid_request_error"}}`)
			return
		}
		if cancel {
			b["status"] = "cancelling"
		}
		f.json(w, b)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"error":{"message":"No batch found","type":"invalid_request_error"}}`)
}

func (f *fakeBatches) json(w http.ResponseWriter, v any) {
	require.NoError(f.t, json.NewEncoder(w).Encode(v))
}

func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

func testBatches() *OpenAI {
	d := openaicompat.Dialect{Vendor: "openai", AsReceived: true}
	return &OpenAI{
		Codecs: Codecs{Vendor: "openai", Alike: true, Chat: openaicompat.New(d), Completion: openaicompat.NewCompletion(d),
			Embedding: openaicompat.NewEmbedding(d)},
		MaxLines: 50_000, MaxBytes: 200_000_000, DecodeError: d.DecodeError,
	}
}

// batchOf returns a batch of chat completions, whose lines have the numbers 1, 3, 5 and so on.
func batchOf(requests ...string) provider.Batch {
	return provider.Batch{
		ID: batchID, Since: 1_800_000_000, Endpoint: "/v1/chat/completions", Count: len(requests),
		Target: provider.Target{Config: &configv1.Provider{Name: "p"}, Model: "gpt-x"},
		Each: func(_ context.Context, take func(int, []byte) error) error {
			for i, r := range requests {
				if err := take(2*i+1, []byte(r)); err != nil {
					return err
				}
			}
			return nil
		},
		Request: func(_ context.Context, line int) ([]byte, error) { return []byte(requests[line/2]), nil },
	}
}

const (
	ask    = `{"model":"team/x","messages":[{"role":"user","content":"Hello"}]}`
	broken = `{"model":"team/x","messages":[]}`
)

func answerLine(customID, content string) string {
	return `{"id":"batch_req_1","custom_id":"` + customID + `","response":{"status_code":200,"request_id":"req_` +
		content +
		`","body":{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		content +
		`"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}},"error":null}` +
		"\n"
}

func collect(t *testing.T, x *OpenAI, c *provider.Client, id string, b provider.Batch) (map[int]provider.BatchAnswer,
	error) {
	t.Helper()
	got := map[int]provider.BatchAnswer{}
	err := x.Results(t.Context(), c, id, b, func(a provider.BatchAnswer) error {
		require.NotContains(t, got, a.Line)
		got[a.Line] = a
		return nil
	})
	return got, err
}
