package messages

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// usage is the vendor's count of tokens. InputTokens includes no cached ones.
type usage struct {
	InputTokens              provider.Count `json:"input_tokens"`
	CacheCreationInputTokens provider.Count `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     provider.Count `json:"cache_read_input_tokens"`
	OutputTokens             provider.Count `json:"output_tokens"`
	OutputTokensDetails      struct {
		ThinkingTokens provider.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServiceTier string `json:"service_tier"`
}

// merge takes in a later count. Every count is of the whole answer so far, and one that is 0 says nothing.
func (u *usage) merge(later usage) {
	for _, c := range []struct{ to, from *provider.Count }{
		{&u.InputTokens, &later.InputTokens},
		{&u.CacheCreationInputTokens, &later.CacheCreationInputTokens},
		{&u.CacheReadInputTokens, &later.CacheReadInputTokens},
		{&u.OutputTokens, &later.OutputTokens},
		{&u.OutputTokensDetails.ThinkingTokens, &later.OutputTokensDetails.ThinkingTokens},
	} {
		if *c.from > 0 {
			*c.to = *c.from
		}
	}
}

func (u usage) openai() openai.Usage {
	written, read, out := int64(u.CacheCreationInputTokens), int64(u.CacheReadInputTokens), int64(u.OutputTokens)
	prompt := int64(u.InputTokens) + written + read
	return openai.Usage{
		PromptTokens:     prompt,
		CompletionTokens: out,
		TotalTokens:      prompt + out,
		CachedTokens:     read,
		CacheWriteTokens: written,
		ReasoningTokens:  int64(u.OutputTokensDetails.ThinkingTokens),
	}
}
