package openai

import (
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/chat"
)

const noUsage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`

// written returns what the client gets for an answer.
func written(asked chat.Asked, a chat.Answer) string {
	w := NewChatDocument(asked)
	a.Emit(w)
	return string(w.Take())
}

func TestChatAnswer(t *testing.T) {
	call := chat.Call{ID: "c1", Name: "f", Arguments: `{"a":"\n"}`}
	for name, c := range map[string]struct {
		choice chat.Choice
		want   string // the message
	}{
		"text": {chat.Choice{Text: "a \"b\"\n\xff"},
			`{"role":"assistant","content":"a \"b\"\n�","refusal":null}`},
		"nothing":   {chat.Choice{}, `{"role":"assistant","content":"","refusal":null}`},
		"a refusal": {chat.Choice{Refusal: "no"}, `{"role":"assistant","content":null,"refusal":"no"}`},
		"text and calls": {chat.Choice{Text: "x", Calls: []chat.Call{call}},
			`{"role":"assistant","content":"x","refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\"}"}}]}`},
		"calls": {chat.Choice{Calls: []chat.Call{call,
			{ID: "c2", Name: "g", Arguments: "{}", ExtraContent: jsontext.Value(`{"x":1}`)}}},
			`{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\"}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"},"extra_content":{"x":1}}]}`},
		"audio": {chat.Choice{Audio: jsontext.Value(`{"id":"a"}`)},
			`{"role":"assistant","content":null,"refusal":null,"audio":{"id":"a"}}`},
		"everything else": {chat.Choice{Text: "x", Reasoning: "r", ThinkingBlocks: jsontext.Value(`[{}]`),
			Annotations: jsontext.Value(`[]`)},
			`{"role":"assistant","content":"x","refusal":null,"reasoning_content":"r","thinking_blocks":[{}],"annotations":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.choice.FinishReason = "stop"
			got := written(chat.Asked{Model: "p/m", Created: 7}, chat.Answer{ID: "i", Choices: []chat.Choice{c.choice}})
			require.Equal(t, `{"id":"i","object":"chat.completion","created":7,"model":"p/m","choices":[{"index":0,"message":`+
				c.want+`,"logprobs":null,"finish_reason":"stop"}],"usage":`+noUsage+`}`, got)
			require.True(t, json.Valid([]byte(got)))
		})
	}
}

func TestChatAnswerOfSeveralChoices(t *testing.T) {
	a := chat.Answer{ID: "i", Choices: []chat.Choice{{Text: "a", FinishReason: "length"},
		{Text: "b", FinishReason: "stop", Logprobs: jsontext.Value(`{"content":[]}`)}}, ServiceTier: "flex"}
	require.Equal(t,
		`{"id":"i","object":"chat.completion","created":0,"model":"","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"length"},`+
			`{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":{"content":[]},"finish_reason":"stop"}],"usage":`+noUsage+`,"service_tier":"flex"}`, written(chat.Asked{}, a))
}
