package openaicompat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestReadUsage(t *testing.T) { // pitfalls 40, 41, 42
	for in, want := range map[string]openai.Usage{
		`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5,"audio_tokens":6},"completion_tokens_details":{"reasoning_tokens":7,"audio_tokens":8}}`: {
			PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3, CachedTokens: 4, CacheWriteTokens: 5, PromptAudio: 6,
			ReasoningTokens: 7, CompletionAudio: 8},
		`{"prompt_tokens":3,"completion_tokens":4}`: {PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7},
		`{"prompt_tokens":3,"completion_tokens":4,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":10}}`:               {PromptTokens: 3, CompletionTokens: 14, TotalTokens: 17, ReasoningTokens: 10},
		`{"prompt_tokens":3,"completion_tokens":14,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":10}}`:              {PromptTokens: 3, CompletionTokens: 14, TotalTokens: 17, ReasoningTokens: 10},
		`{"prompt_tokens":3,"total_tokens":3,"prompt_cache_hit_tokens":2,"prompt_cache_miss_tokens":1}`:                                 {PromptTokens: 3, TotalTokens: 3, CachedTokens: 2},
		`{"prompt_tokens":3,"total_tokens":3,"cached_tokens":2,"prompt_tokens_details":null}`:                                           {PromptTokens: 3, TotalTokens: 3, CachedTokens: 2},
		`{"prompt_tokens":3,"total_tokens":3,"cache_creation_input_tokens":2,"cache_read_input_tokens":1}`:                              {PromptTokens: 3, TotalTokens: 3, CacheWriteTokens: 2, CachedTokens: 1},
		`{"prompt_tokens":3,"total_tokens":3,"prompt_tokens_details":{"cache_creation_input_tokens":2}}`:                                {PromptTokens: 3, TotalTokens: 3, CacheWriteTokens: 2},
		`{"prompt_tokens":3,"total_tokens":3,"prompt_tokens_details":{"cache_creation_tokens":2},"cache_creation_input_tokens":2}`:      {PromptTokens: 3, TotalTokens: 3, CacheWriteTokens: 2},
		`{"prompt_tokens":3.0,"completion_tokens":null,"prompt_tokens_details":null,"completion_tokens_details":{"audio_tokens":null}}`: {PromptTokens: 3, TotalTokens: 3},
		`{"prompt_tokens":-1,"completion_tokens":1e400,"total_tokens":"7"}`:                                                             {CompletionTokens: openai.MaxTokens, TotalTokens: openai.MaxTokens},
		`{"prompt_tokens":99999999999999999999,"completion_tokens":-1e400,"total_tokens":[1]}`:                                          {PromptTokens: openai.MaxTokens, TotalTokens: openai.MaxTokens},
		`{"prompt_tokens_details":{"cached_tokens":-5,"audio_tokens":2},"completion_tokens":{"a":1}}`:                                   {PromptAudio: 2},
	} {
		require.Equal(t, want, readUsage([]byte(in)), in)
	}
}

func TestUsageIsCompleteAndKeepsWhatElseTheVendorSays(t *testing.T) { // pitfalls 42, 43
	for in, want := range map[string]string{
		`{"prompt_tokens":3,"completion_tokens":4,"cost":0.00114,"cost_details":{"x":null},"prompt_tokens_details":{"video_tokens":1,"cached_tokens":null},"completion_tokens_details":null}`: `{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"video_tokens":1},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0},"cost":0.00114,"cost_details":{"x":null}}`,
		`{"cache_creation_input_tokens":2}`:                  `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0},"cache_creation_input_tokens":2}`,
		`{"prompt_tokens_details":{"cache_write_tokens":2}}`: `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}`,
		`{}`: `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}`,
	} {
		require.Equal(t, want, string(appendUsage(nil, []byte(in))))
	}
}
