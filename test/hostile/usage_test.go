package hostile

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/harness"
)

// A vendor that says that it has used more than its model can do empties no budget: what the model can do is charged,
// and the record says that the figures are doubtful.
func TestAVendorsUsageIsBounded(t *testing.T) {
	t.Parallel()
	const context, output = 100_000, 1_000
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said := gjson.GetBytes(body, "messages.0.content").Str
		if gjson.GetBytes(body, "stream").Bool() {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":%s}

data: [DONE]

`, said)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":%s}`, said)
	}))
	t.Cleanup(vendor.Close)
	g := harness.Run(t, t.TempDir(), "--concurrency", "1")
	harness.Must(t, fmt.Sprintf(`kind: Provider
name: v
vendor: compatible
endpoint: %s
---
kind: Catalog
name: default
models: [{models: [m], capabilities: {context_tokens: %d, max_output_tokens: %d}, price: {input: "1", output: "1"}}]
`, vendor.URL, context, output), "config", "apply", "--data", g.Dir, "-f", "-")
	for usage, doubtful := range map[string]bool{
		`{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}`:                                                          false,
		`{"prompt_tokens":1000000000000000000,"completion_tokens":1,"total_tokens":2}`:                                         true,
		`{"prompt_tokens":9,"completion_tokens":1000000000000000000,"total_tokens":2}`:                                         true,
		`{"prompt_tokens":1e300,"completion_tokens":1e300,"total_tokens":1e300}`:                                               true,
		`{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807,"total_tokens":99999999999999999999999}`: true,
		`{"prompt_tokens":9,"completion_tokens":2000000,"completion_tokens_details":{"reasoning_tokens":1000000000000000000}}`: true,
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":1000000000000000000}}`:              true,
		`{"prompt_tokens":-1000000000000000000,"completion_tokens":-5,"total_tokens":-7}`:                                      false,
		`{"prompt_tokens":"1000000000000000000","completion_tokens":"x","total_tokens":{}}`:                                    true,
		`{"prompt_tokens":9,"completion_tokens":1,"total_tokens":1000000000000000000}`:                                         true,
	} {
		for _, stream := range []bool{false, true} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
				strings.NewReader(fmt.Sprintf(`{"model":"v/m","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, usage)))
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+g.Key)
			r.Header.Set("Content-Type", "application/json")
			answer, err := g.Client.Do(r)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
			line := g.Logged(t, answer.Header.Get("X-Request-Id"))
			require.Equal(t, doubtful, line["usage_doubtful"] == true, "%s %v", usage, line)
			for name, most := range map[string]float64{"prompt_tokens": context, "completion_tokens": output,
				"cached_tokens": context, "reasoning_tokens": output} {
				require.GreaterOrEqual(t, line[name], 0.0, "%s: %s", usage, name)
				require.LessOrEqual(t, line[name], most, "%s: %s", usage, name)
			}
		}
	}
}
