package usage_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

func TestAVendorsUsageIsBoundedByWhatTheModelCanDo(t *testing.T) {
	known := &configv1.Capabilities{ContextTokens: proto.Int64(100_000), MaxOutputTokens: proto.Int64(4_000)}
	for name, c := range map[string]struct {
		can      *configv1.Capabilities
		answers  int64
		u, want  openai.Usage
		doubtful bool
	}{
		"nothing": {known, 1,
			openai.Usage{},
			openai.Usage{}, false},
		"usual": {known, 1,
			openai.Usage{PromptTokens: 9, CompletionTokens: 3, TotalTokens: 12, CachedTokens: 5},
			openai.Usage{PromptTokens: 9, CompletionTokens: 3, TotalTokens: 12, CachedTokens: 5}, false},
		"a bit above": {known, 1,
			openai.Usage{PromptTokens: 200_000, CompletionTokens: 8_000},
			openai.Usage{PromptTokens: 200_000, CompletionTokens: 8_000}, false},
		"10^18": {known, 1,
			openai.Usage{PromptTokens: 1e18, CompletionTokens: 1e18, TotalTokens: 2e18, CachedTokens: 1e18,
				ReasoningTokens: 1e18, Searches: 1e18},
			openai.Usage{PromptTokens: 100_000, CompletionTokens: 4_000, TotalTokens: 104_000, CachedTokens: 100_000,
				ReasoningTokens: 4_000, Searches: 1000}, true},
		"the largest number": {known, 1,
			openai.Usage{PromptTokens: math.MaxInt64, CompletionTokens: 1},
			openai.Usage{PromptTokens: 100_000, CompletionTokens: 1, TotalTokens: 100_001}, true},
		"several answers": {known, 3,
			openai.Usage{PromptTokens: 1, CompletionTokens: 1e12},
			openai.Usage{PromptTokens: 1, CompletionTokens: 12_000, TotalTokens: 12_001}, true},
		"too many answers": {known, math.MaxInt64,
			openai.Usage{CompletionTokens: 1e12},
			openai.Usage{CompletionTokens: 512_000, TotalTokens: 512_000}, true},
		"an unknown model": {nil, 1,
			openai.Usage{PromptTokens: 1e18, CompletionTokens: 5},
			openai.Usage{PromptTokens: 1 << 24, CompletionTokens: 5, TotalTokens: 1<<24 + 5}, true},
		"a long prompt": {nil, 1,
			openai.Usage{PromptTokens: 10_000_000},
			openai.Usage{PromptTokens: 10_000_000}, false},
		"only the context": {&configv1.Capabilities{ContextTokens: proto.Int64(8_000)}, 1,
			openai.Usage{CompletionTokens: 1e9},
			openai.Usage{CompletionTokens: 8_000, TotalTokens: 8_000}, true},
		"negative": {known, 1,
			openai.Usage{PromptTokens: -5, CompletionTokens: -1, CachedTokens: -1, TotalTokens: -6},
			openai.Usage{}, true},
		"negative searches": {known, 1,
			openai.Usage{PromptTokens: 5, Searches: -1},
			openai.Usage{PromptTokens: 5, TotalTokens: 5}, true},
		"a catalog of zeroes": {&configv1.Capabilities{ContextTokens: proto.Int64(0)}, 1,
			openai.Usage{PromptTokens: 5},
			openai.Usage{PromptTokens: 5}, false},
		"a part": {known, 1,
			openai.Usage{PromptTokens: 9, CachedTokens: 1e18, CompletionTokens: 2, ReasoningTokens: 1e12},
			openai.Usage{PromptTokens: 9, CachedTokens: 9, CompletionTokens: 2, ReasoningTokens: 2, TotalTokens: 11}, true},
		"the sum": {known, 1,
			openai.Usage{PromptTokens: 9, TotalTokens: 1e18},
			openai.Usage{PromptTokens: 9, TotalTokens: 9}, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := c.u
			require.Equal(t, c.doubtful, usage.Bound(&u, c.can, c.answers))
			require.Equal(t, c.want, u)
		})
	}
}
