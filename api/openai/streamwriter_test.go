package openai_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestStreamWriter(t *testing.T) {
	for _, usage := range []bool{false, true} {
		w := openai.NewStreamWriter("p/m", 7, usage)
		w.Begin("id-1")
		w.Begin("id-2")
		w.Text(0, "he said \"hi\"\n")
		w.ToolCall(0, 0, "call_1", "f")
		w.ToolArguments(0, 0, `{"a`)
		w.Finish(0, "tool_calls")
		w.Finish(0, "stop")
		w.SetUsage(openai.Usage{PromptTokens: 3, CompletionTokens: 4})
		w.UsageChunk()
		w.Done()

		head := `data: {"id":"id-1","object":"chat.completion.chunk","created":7,"model":"p/m","choices":[`
		tail := "}\n\n"
		if usage {
			tail = `,"usage":null}` + "\n\n"
		}
		want := head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]` + tail +
			head + `{"index":0,"delta":{"content":"he said \"hi\"\n"},"logprobs":null,"finish_reason":null}]` + tail +
			head + `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]},"logprobs":null,"finish_reason":null}]` + tail +
			head + `{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]},"logprobs":null,"finish_reason":null}]` + tail +
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]` + tail
		if usage {
			want += head + `],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}` + "\n\n"
		}
		want += "data: [DONE]\n\n"
		require.Equal(t, want, string(w.Take()))
		require.Empty(t, w.Take())
	}
}

func TestStreamWriterBeginsToolAnswersWithNullContent(t *testing.T) {
	w := openai.NewStreamWriter("m", 1, false)
	w.Begin("x")
	w.ToolCall(0, 0, "c", "f")
	require.True(t, strings.Contains(string(w.Take()), `"delta":{"role":"assistant","content":null}`))
}

func TestStreamThatIsCopied(t *testing.T) {
	w := openai.NewStreamWriter("m", 1, false)
	w.Copy([]byte(": ping\r\n\r\n"))
	w.Copy([]byte("data: [DONE]\r\n\r\n"))
	require.False(t, w.IsDone())
	w.Complete()
	w.Done()
	require.True(t, w.IsDone())
	require.Equal(t, ": ping\r\n\r\ndata: [DONE]\r\n\r\n", string(w.Take()), "the end mark is the vendor's")
}

func TestErrorJSON(t *testing.T) {
	e := openai.BadRequest("messages[0]", "", "bad \"thing\" \xff")
	require.JSONEq(t, `{"error":{"message":"bad \"thing\" �","type":"invalid_request_error","param":"messages[0]","code":null}}`, string(e.AppendJSON(nil)))
}
