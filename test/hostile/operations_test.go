package hostile

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// A small server of OpenAI's dialect has chat completions and nothing else. Clients of every dialect can use it, and
// what cannot be translated is refused before it is sent.
func TestAServerGetsOnlyTheOperationsThatItHas(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost { // the control plane gets the list of models
			mu.Lock()
			paths = append(paths, r.URL.Path)
			mu.Unlock()
		}
		if r.URL.Path != "/v1/chat/completions" {
			http.NotFound(w, r)
			return
		}
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}

data: [DONE]

`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(server.Close)
	g := harness.Run(t, t.TempDir(), "--concurrency", "1")
	g.Apply(t, &configv1.Provider{Name: "small", Vendor: "compatible", Endpoint: server.URL + "/v1"},
		&configv1.Provider{Name: "older", Vendor: "vllm", Endpoint: server.URL + "/v1",
			Operations: []string{"chat/completions"}})
	ask := func(path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+g.Key)
		r.Header.Set("Content-Type", "application/json")
		answer, err := g.Client.Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	for _, provider := range []string{"small", "older"} {
		for path, body := range map[string]string{
			"/v1/responses":                      `{"model":"P/m","store":false,"input":"hi"STREAM}`,
			"/v1/messages":                       `{"model":"P/m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]STREAM}`,
			"/v1beta/models/P/m:generateContent": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
			"/v1beta/models/P/m:streamGenerateContent?alt=sse": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
			"/v1/chat/completions":                             `{"model":"P/m","messages":[{"role":"user","content":"hi"}]STREAM}`,
		} {
			for _, stream := range []string{"", `,"stream":true`} {
				status, text := ask(strings.ReplaceAll(path, "P", provider),
					strings.NewReplacer("P", provider, "STREAM", stream).Replace(body))
				require.Equal(t, 200, status, "%s %s: %s", provider, path, text)
				require.Contains(t, text, "hello")
			}
		}
	}
	for path, body := range map[string]string{
		"/v1/embeddings":         `{"model":"older/m","input":"hi"}`,
		"/v1/rerank":             `{"model":"older/m","query":"a","documents":["a"]}`,
		"/v1/moderations":        `{"model":"older/m","input":"hi"}`,
		"/v1/responses/compact":  `{"model":"small/m","input":"hi"}`,
		"/v1/images/generations": `{"model":"older/m","prompt":"hi"}`,
	} {
		status, text := ask(path, body)
		require.Equal(t, 400, status, "%s: %s", path, text)
		require.Contains(t, text, "does not serve", path)
	}
	status, text := ask("/v1/completions", `{"model":"older/m","prompt":"hi"}`)
	require.Equal(t, 200, status, text)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, paths, 21)
	for _, path := range paths {
		require.Equal(t, "/v1/chat/completions", path)
	}

	said, err := harness.Command(t, "kind: Provider\nname: x\nvendor: compatible\nendpoint: "+server.URL+
		"\noperations: [chat, chat/completions, chat/completions]\n", "config", "apply", "--data", g.Dir, "-f", "-")
	require.Error(t, err)
	require.Contains(t, said, "operations[0]")
	require.Contains(t, said, "chat/completions, completions, embeddings, rerank")
	require.Contains(t, said, "operations[2]")
}
