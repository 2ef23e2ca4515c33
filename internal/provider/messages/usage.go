package messages

import "github.com/modelgate/modelgate/api/openai"

// usage is the vendor's count of tokens. InputTokens includes no cached ones.
type usage struct {
	InputTokens              int64 `json:"input_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	OutputTokensDetails      struct {
		ThinkingTokens int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServiceTier string `json:"service_tier"`
}

// merge takes in a later count. Every count is of the whole answer so far, and one that is 0 says nothing.
func (u *usage) merge(later usage) {
	for _, c := range []struct{ to, from *int64 }{
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
	written, read, out := openai.Count(u.CacheCreationInputTokens), openai.Count(u.CacheReadInputTokens), openai.Count(u.OutputTokens)
	prompt := openai.Count(u.InputTokens) + written + read
	return openai.Usage{
		PromptTokens:     prompt,
		CompletionTokens: out,
		TotalTokens:      prompt + out,
		CachedTokens:     read,
		CacheWriteTokens: written,
		ReasoningTokens:  openai.Count(u.OutputTokensDetails.ThinkingTokens),
	}
}
