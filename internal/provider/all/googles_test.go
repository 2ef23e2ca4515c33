package all

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/translate"
)

// Google's servers with OpenAI's dialect demand the signatures of calls, whichever vendor an operator has called them.
// What AI Studio has signed in its own dialect is as good there, and nothing that Vertex AI has signed.
func TestGooglesServersOfOpenAIsDialectGetTheirSignatures(t *testing.T) {
	const (
		made   = `"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]`
		whole  = `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,` + made + `}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
		native = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"responseId":"r"}`
	)
	streamed := sse(fmt.Sprintf(chunk, made, "null"), fmt.Sprintf(chunk, "", `"tool_calls"`), "[DONE]")
	for _, endpoint := range []translate.Endpoint{translate.Chat, translate.Messages, translate.Responses} {
		for _, vendor := range []string{"openai", "compatible"} {
			to := talk{vendor, "googles", "gemini-3-pro-preview", endpoint}
			for _, c := range []struct {
				from          talk
				whole, stream string
				want          string
			}{
				{to, whole, streamed, "c2ln"},
				{talk{"gemini", "g", "gemini-3-pro-preview", endpoint}, native, sse(native), "c2ln"},
				{talk{"vertex", "v", "gemini-3-pro-preview", endpoint}, native, sse(native), "skip_thought_signature_validator"},
			} {
				for stream, answer := range map[bool]string{false: c.whole, true: c.stream} {
					sent := c.from.second(t, stream, answer, to)
					require.Equal(t, c.want, gjson.GetBytes(sent,
						"messages.1.tool_calls.0.extra_content.google.thought_signature").Str, "%s, from %s to %s, streamed %v: %s",
						endpoint, c.from.vendor, vendor, stream, sent)
				}
			}
		}
		sent := talk{"gemini", "g", "gemini-3-pro-preview", endpoint}.second(t, false, native,
			talk{"compatible", "one", "m", endpoint})
		require.NotContains(t, string(sent), "c2ln", "another server")
	}
}

// Clients that know signatures send them back in the call, too.
func TestASignatureInACallOfAnotherProductIsReplaced(t *testing.T) {
	ask := func(turns string) string {
		return `{"model":"m","messages":[{"role":"user","content":"x"}` + turns + `]}`
	}
	for vendor, want := range map[string]string{"gemini": "c2ln", "vertex": "skip_thought_signature_validator"} {
		_, x := talk{vendor, "g", "gemini-3-pro-preview", translate.Chat}.encode(t, ask(""))
		got := x.Respond(translate.Response{Status: 200}, []byte(`{"candidates":[{"content":{"parts":[{"functionCall":`+
			`{"name":"f","args":{}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}],"responseId":"r"}`))
		call := gjson.GetBytes(got.Body, "choices.0.message.tool_calls.0")
		require.Equal(t, "c2ln", call.Get("extra_content.google.thought_signature").Str, string(got.Body))
		sent, _ := talk{"openai", "googles", "m", translate.Chat}.encode(t, ask(`,{"role":"assistant","tool_calls":[`+
			call.Raw+`]},{"role":"tool","tool_call_id":"`+call.Get("id").Str+`","content":"y"}`))
		require.Equal(t, want, gjson.GetBytes(sent, "messages.1.tool_calls.0.extra_content.google.thought_signature").Str)
	}
}
