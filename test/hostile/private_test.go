package hostile

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// Claude Code's billing line is another one in each request. A vendor that is not Anthropic gets the same prompt each
// time, whatever dialect it or the client speaks, so that its cache finds it.
func TestABillingLineDoesNotDefeatCachesOfOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost { // the control plane gets the list of models
			mu.Lock()
			got = append(got, string(body))
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/messages") {
			_, _ = fmt.Fprint(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
			return
		}
		_, _ = fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(vendor.Close)
	g := harness.Run(t, t.TempDir(), "--concurrency", "1")
	harness.Must(t, fmt.Sprintf(`kind: Provider
name: chat
vendor: compatible
endpoint: %[1]s
---
kind: Provider
name: claude
vendor: anthropic
endpoint: %[1]s/v1
credential: {value: sk-test}
`, vendor.URL), "config", "apply", "--data", g.Dir, "-f", "-")
	const line = `x-anthropic-billing-header: cc_version=2; cch=%d;`
	for path, body := range map[string]string{
		"/v1/messages":         `"max_tokens":9,"system":[{"type":"text","text":"` + line + `"},{"type":"text","text":"You are an agent."}],"messages":[{"role":"user","content":"hi"}]`,
		"/v1/chat/completions": `"messages":[{"role":"system","content":"` + line + `\nYou are an agent."},{"role":"user","content":"hi"}]`,
		"/v1/responses":        `"instructions":"` + line + `\nYou are an agent.","input":"hi"`,
	} {
		for _, provider := range []string{"chat", "claude"} {
			if provider == "claude" && path == "/v1/responses" {
				continue
			}
			got = nil
			for n := range 2 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path,
					strings.NewReader(`{"model":"`+provider+`/m",`+fmt.Sprintf(body, 7000+n)+`}`))
				require.NoError(t, err)
				r.Header.Set("Authorization", "Bearer "+g.Key)
				r.Header.Set("Content-Type", "application/json")
				answer, err := g.Client.Do(r)
				require.NoError(t, err)
				said, err := io.ReadAll(answer.Body)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.Equal(t, http.StatusOK, answer.StatusCode, "%s at %s: %s", path, provider, said)
			}
			require.Len(t, got, 2, "%s at %s", path, provider)
			require.Equal(t, got[0], got[1], "%s at %s", path, provider)
			require.Contains(t, got[0], "You are an agent.")
			require.NotContains(t, got[0], "billing")
		}
	}
}
