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

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/test/harness"
)

// TestIDsOfAVendorsBatchComeBack: what an answer of a vendor's own batch carries in its ids comes back with the next
// request of the key, although another process has read the answer. It does not for another key.
func TestIDsOfAVendorsBatchComeBack(t *testing.T) {
	t.Parallel()
	const message = `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[` + thinkingOfClaude +
		`,{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
	const batch = `{"id":"msgbatch_1","type":"message_batch","processing_status":"ended","created_at":"2027-01-15T08:00:00Z","ended_at":"2027-01-15T09:00:00Z","results_url":"https://api.anthropic.com/x","request_counts":{"processing":0,"succeeded":1,"errored":0,"canceled":0,"expired":0}}`
	custom, got := make(chan string, 9), make(chan string, 9)
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/results"):
			_, _ = fmt.Fprintf(w, `{"custom_id":%q,"result":{"type":"succeeded","message":%s}}`+"\n", <-custom, message)
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/batches"):
			custom <- gjson.GetBytes(body, "requests.0.custom_id").Str
			_, _ = io.WriteString(w, batch)
		case strings.Contains(r.URL.Path, "/batches"):
			_, _ = io.WriteString(w, batch)
		case r.Method == http.MethodPost:
			got <- string(body)
			_, _ = io.WriteString(w, message)
		}
	}))
	t.Cleanup(vendor.Close)
	g := harness.Run(t, t.TempDir())
	_, key := g.CreateKey(t, "acme", "")
	_, colleague := g.CreateKey(t, "acme", "")
	harness.Must(t, fmt.Sprintf("kind: Provider\nname: ant\nvendor: anthropic\nendpoint: %s\nnative_batches: true\ncredential: {value: x}\n",
		vendor.URL), "config", "apply", "--data", g.Dir, "-f", "-")
	client := g.As(key)
	done := client.Await(t, client.Begin(t, "/v1/chat/completions",
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"ant/claude","reasoning_effort":"low","messages":[{"role":"user","content":"x"}]}}`))
	require.Equal(t, "completed", done.Status, "%+v", done.Errors)
	id := gjson.Get(client.Content(t, *done.OutputFileID), "response.body.choices.0.message.tool_calls.0.id").Str
	require.Contains(t, id, openai.CarriedMark)
	for who, back := range map[string]bool{key: true, colleague: false} {
		a := g.As(who).Do(t, http.MethodPost, "/v1/chat/completions",
			fmt.Sprintf(goingOn["/v1/chat/completions"], "ant/claude", id))
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, back, strings.Contains(<-got, "c2ln"))
	}
}
