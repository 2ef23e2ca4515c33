package openaicompat

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestReadUsageBelievesOnlyCounts(t *testing.T) {
	for in, want := range map[string]openai.Usage{
		`{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`:                                  {PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7},
		`{"prompt_tokens":3.0,"completion_tokens":null,"prompt_tokens_details":null}`:                 {PromptTokens: 3},
		`{"prompt_tokens":-1,"completion_tokens":1e400,"total_tokens":"7"}`:                           {CompletionTokens: openai.MaxTokens},
		`{"prompt_tokens":99999999999999999999,"completion_tokens":-1e400,"total_tokens":[1]}`:        {PromptTokens: openai.MaxTokens},
		`{"prompt_tokens_details":{"cached_tokens":-5,"audio_tokens":2},"completion_tokens":{"a":1}}`: {PromptAudio: 2},
	} {
		require.Equal(t, want, readUsage([]byte(in)), in)
	}
}
