package openaicompat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsageIsCompleteAndKeepsWhatElseTheVendorSays(t *testing.T) { // pitfalls 42, 43
	for in, want := range map[string]string{
		`{"prompt_tokens":3,"completion_tokens":4,"cost":0.00114,"cost_details":{"x":null},"prompt_tokens_details":{"video_tokens":1,"cached_tokens":null},"completion_tokens_details":null}`: `{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"video_tokens":1},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0},"cost":0.00114,"cost_details":{"x":null}}`,
		`{"cache_creation_input_tokens":2}`:                  `{"prompt_tokens":2,"completion_tokens":0,"total_tokens":2,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0},"cache_creation_input_tokens":2}`,
		`{"prompt_tokens_details":{"cache_write_tokens":2}}`: `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"cache_write_tokens":2},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}`,
		`{}`: `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}`,
	} {
		u := readUsage([]byte(in))
		require.Equal(t, want, string(appendUsage(nil, []byte(in), &u)))
	}
}
