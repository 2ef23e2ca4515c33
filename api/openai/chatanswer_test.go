package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

const noUsage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`

func TestChatAnswer(t *testing.T) {
	call := openai.AnswerCall{ID: "c1", Name: "f", Arguments: `{"a":"\n"}`}
	for name, c := range map[string]struct {
		choice openai.ChatChoice
		want   string // the message
	}{
		"text":            {openai.ChatChoice{Text: "a \"b\"\n\xff"}, `{"role":"assistant","content":"a \"b\"\n�","refusal":null}`},
		"nothing":         {openai.ChatChoice{}, `{"role":"assistant","content":"","refusal":null}`},
		"a refusal":       {openai.ChatChoice{Refusal: "no"}, `{"role":"assistant","content":null,"refusal":"no"}`},
		"text and calls":  {openai.ChatChoice{Text: "x", Calls: []openai.AnswerCall{call}}, `{"role":"assistant","content":"x","refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\"}"}}]}`},
		"calls":           {openai.ChatChoice{Calls: []openai.AnswerCall{call, {ID: "c2", Name: "g", Arguments: "{}", ExtraContent: value(`{"x":1}`)}}}, `{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\"}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"},"extra_content":{"x":1}}]}`},
		"audio":           {openai.ChatChoice{Audio: value(`{"id":"a"}`)}, `{"role":"assistant","content":null,"refusal":null,"audio":{"id":"a"}}`},
		"everything else": {openai.ChatChoice{Text: "x", Reasoning: "r", ThinkingBlocks: value(`[{}]`), Annotations: value(`[]`)}, `{"role":"assistant","content":"x","refusal":null,"reasoning_content":"r","thinking_blocks":[{}],"annotations":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			c.choice.FinishReason = "stop"
			a := openai.ChatAnswer{ID: "i", Created: 7, Model: "p/m", Choices: []openai.ChatChoice{c.choice}}
			got := string(a.AppendJSON([]byte("x")))
			require.Equal(t, `x{"id":"i","object":"chat.completion","created":7,"model":"p/m","choices":[{"index":0,"message":`+c.want+`,"logprobs":null,"finish_reason":"stop"}],"usage":`+noUsage+`}`, got)
			require.True(t, json.Valid([]byte(got[1:])))
		})
	}
}

func TestChatAnswerOfSeveralChoices(t *testing.T) {
	a := openai.ChatAnswer{ID: "i", Choices: []openai.ChatChoice{{Text: "a", FinishReason: "length"}, {Text: "b", FinishReason: "stop", Logprobs: value(`{"content":[]}`)}}, ServiceTier: "flex"}
	require.Equal(t, `{"id":"i","object":"chat.completion","created":0,"model":"","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null},"logprobs":null,"finish_reason":"length"},`+
		`{"index":1,"message":{"role":"assistant","content":"b","refusal":null},"logprobs":{"content":[]},"finish_reason":"stop"}],"usage":`+noUsage+`,"service_tier":"flex"}`, string(a.AppendJSON(nil)))
}

func TestUsage(t *testing.T) {
	u := openai.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 3, CacheWriteTokens: 2, PromptAudio: 1, ReasoningTokens: 4, CompletionAudio: 6}
	require.Equal(t, `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":3,"audio_tokens":1,"cache_write_tokens":2},`+
		`"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":6,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`, string(u.AppendJSON(nil)))
	u.TotalTokens, u.HourWriteTokens = 20, 1
	require.Contains(t, string(u.AppendJSON(nil)), `"cache_write_tokens":2,"cache_write_hour_tokens":1}`)
	require.Contains(t, string(u.AppendJSON(nil)), `"total_tokens":20`, "as the vendor counted")
	require.True(t, openai.Usage{}.IsZero())
	require.False(t, u.IsZero())
	for n, want := range map[int64]int64{-1: 0, 0: 0, 7: 7, 1 << 62: openai.MaxTokens} {
		require.Equal(t, want, openai.Count(n))
	}
}

func TestError(t *testing.T) {
	e := openai.Unsupported("n", "acme")
	require.Equal(t, "400 invalid_request_error: Unsupported parameter: 'n' is not supported by the provider 'acme'. Remove it or choose another model.", e.Error())
	require.Equal(t, map[string][]string{"Content-Type": {"application/json"}}, map[string][]string(e.Header()))
	e = openai.ModelNotFound("m")
	require.Equal(t, 404, e.Status)
	require.JSONEq(t, "{\"error\":{\"message\":\"The model `m` does not exist or you do not have access to it.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"model_not_found\"}}", string(e.AppendJSON(nil)))
	e.RetryAfter, e.NoRetry = 1500e6, true
	require.Equal(t, "2", e.Header().Get("Retry-After"))
	require.Equal(t, "1500", e.Header().Get("Retry-After-Ms"))
	require.Equal(t, "false", e.Header().Get("X-Should-Retry"))
}
