package openai

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

func TestChatStream(t *testing.T) {
	for _, usage := range []bool{false, true} {
		w := NewChatStream(chat.Asked{Model: "p/m", Created: 7, IncludeUsage: usage})
		w.Put(chat.Begin("id-1"))
		w.Put(chat.Begin("id-2"))
		w.Put(chat.Text(0, "he said \"hi\"\n"))
		w.Put(chat.ToolCall(0, 0, "call_1", "f"))
		w.Put(chat.Arguments(0, 0, `{"a`))
		w.Put(chat.Finish(0, "tool_calls"))
		w.Put(chat.Finish(0, "stop"))
		w.Put(chat.Usage(openai.Usage{PromptTokens: 3, CompletionTokens: 4}))
		w.Put(chat.End())

		head := `data: {"id":"id-1","object":"chat.completion.chunk","created":7,"model":"p/m","choices":[`
		tail := "}\n\n"
		if usage {
			tail = `,"usage":null}` + "\n\n"
		}
		want := head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]` + tail +
			head + `{"index":0,"delta":{"content":"he said \"hi\"\n"},"logprobs":null,"finish_reason":null}]` + tail +
			head +
			`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]},"logprobs":null,"finish_reason":null}]` + tail +
			head +
			`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]},"logprobs":null,"finish_reason":null}]` + tail +
			head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]` + tail
		if usage {
			want += head +
				`],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}` + "\n\n"
		}
		want += "data: [DONE]\n\n"
		require.Equal(t, want, string(w.Take()))
		require.Empty(t, w.Take())
	}
}

func TestChatStreamBeginsToolAnswersWithNullContent(t *testing.T) {
	w := NewChatStream(chat.Asked{Model: "m", Created: 1})
	w.Put(chat.Begin("x"))
	w.Put(chat.ToolCall(0, 0, "c", "f"))
	require.True(t, strings.Contains(string(w.Take()), `"delta":{"role":"assistant","content":null}`))
}

func TestStreamThatIsCopied(t *testing.T) {
	w := NewChatStream(chat.Asked{})
	w.Put(chat.Event{Kind: chat.KindComment, JSON: []byte(": ping\r\n\r\n")})
	w.Put(chat.Event{Kind: chat.KindText, Covered: true, JSON: []byte(`"x"`)})
	w.Put(chat.Event{Kind: chat.KindRawEvent, JSON: []byte("data: {}\r\n\r\n")})
	w.Put(chat.Event{Kind: chat.KindComment, JSON: []byte("data: [DONE]\r\n\r\n")})
	w.Put(chat.Event{Kind: chat.KindEnd, Covered: true})
	require.Equal(t, ": ping\r\n\r\ndata: {}\r\n\r\ndata: [DONE]\r\n\r\n", string(w.Take()),
		"the end mark is the vendor's")
}
