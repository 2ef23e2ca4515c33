package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestUsage(t *testing.T) {
	u := openai.Usage{PromptTokens: 10, CompletionTokens: 5, CachedTokens: 3, CacheWriteTokens: 2, PromptAudio: 1,
		ReasoningTokens: 4, CompletionAudio: 6}
	require.Equal(t,
		`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":3,"audio_tokens":1,"cache_write_tokens":2},`+
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
	require.Equal(t,
		"400 invalid_request_error: Unsupported parameter: 'n' is not supported by the provider 'acme'. Remove it or choose another model.", e.Error())
	require.Equal(t, map[string][]string{"Content-Type": {"application/json"}}, map[string][]string(e.Header()))
	e = openai.ModelNotFound("m")
	require.Equal(t, 404, e.Status)
	require.JSONEq(t,
		"{\"error\":{\"message\":\"The model `m` does not exist or you do not have access to it.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"model_not_found\"}}", string(e.AppendJSON(nil)))
	e.RetryAfter, e.NoRetry = 1500e6, true
	require.Equal(t, "2", e.Header().Get("Retry-After"))
	require.Equal(t, "1500", e.Header().Get("Retry-After-Ms"))
	require.Equal(t, "false", e.Header().Get("X-Should-Retry"))
}

func TestErrorJSON(t *testing.T) {
	e := openai.BadRequest("messages[0]", "bad \"thing\" \xff")
	require.JSONEq(t,
		`{"error":{"message":"bad \"thing\" �","type":"invalid_request_error","param":"messages[0]","code":null}}`,
		string(e.AppendJSON(nil)))
}
