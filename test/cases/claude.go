package cases

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// askClaude is a request of Anthropic's Messages API to Claude on Bedrock.
const askClaude = `{"model":"c/us.anthropic.claude-sonnet-4-20250514-v1:0","max_tokens":40,"messages":[{"role":"user","content":"Grüße, \u00fc"}]}`

// claudeEvents are the events of a stream of Claude's, without the names.
var claudeEvents = []string{
	`{"type":"message_start","message":{"model":"c/us.anthropic.claude-sonnet-4-20250514-v1:0","id":"msg_bdrk_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmVk"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`,
	`{"type":"message_stop"}`,
}

// claudeOnBedrock is what Anthropic's clients get of Claude on Bedrock.
func claudeOnBedrock(t *testing.T, g *Gateway) {
	checked := verifies(g.B, `{"type":"message","id":"msg_bdrk_1","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"hm","signature":"c2lnbmVk"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}`)
	a := g.Do(t, "POST", "/v1/messages", askClaude, "Anthropic-Beta", "interleaved-thinking-2025-05-14,claude-code-20250219")
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.NoError(t, <-checked)
	require.Contains(t, string(a.Body), `"content":[{"type":"thinking","thinking":"hm","signature":"c2lnbmVk"}]`)
	require.Equal(t, "anthropic-beta", a.Header.Get("X-Modelgate-Dropped"))

	var frames, want strings.Builder
	for _, e := range claudeEvents {
		frames.WriteString(ClaudeFrame(e))
		fmt.Fprintf(&want, "event: %s\ndata: %s\n\n", gjson.Get(e, "type").Str, e)
	}
	for _, size := range []int{1, 50, 1 << 20} {
		g.B.Answers(streamAs("application/vnd.amazon.eventstream", []byte(frames.String()), size))
		a = g.Do(t, "POST", "/v1/messages", strings.Replace(askClaude, "{", `{"stream":true,`, 1))
		require.Equal(t, want.String(), string(a.Body))
		require.Equal(t, "text/event-stream; charset=utf-8", a.Header.Get("Content-Type"))
	}
	asked := g.B.Requests()[0]
	require.Equal(t, "/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/invoke-with-response-stream", asked.Path)
	require.Equal(t, `{"anthropic_version":"bedrock-2023-05-31","max_tokens":40,"messages":[{"role":"user","content":"Grüße, \u00fc"}]}`,
		string(asked.Body))

	for answer, counted := range map[string]string{
		`{"inputTokens":14}`: "",
		`{"message":"The provided model doesn't support counting tokens."}`: "estimate",
	} {
		code := map[string]int{"": 200, "estimate": 400}[counted]
		g.B.Answers(status(code, answer))
		a = g.Do(t, "POST", "/v1/messages/count_tokens", askClaude)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, counted, a.Header.Get("X-Modelgate-Counted"))
		require.Positive(t, gjson.GetBytes(a.Body, "input_tokens").Int(), string(a.Body))
		require.Equal(t, "application/json", a.Header.Get("Content-Type"))
		require.Equal(t, "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/count-tokens", g.B.Requests()[0].Path)
	}
}
