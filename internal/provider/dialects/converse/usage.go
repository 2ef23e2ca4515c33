package converse

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// usage is the vendor's count of tokens. InputTokens includes no cached ones, TotalTokens all. The cached ones have
// two names.
type usage struct {
	InputTokens               provider.Count `json:"inputTokens"`
	OutputTokens              provider.Count `json:"outputTokens"`
	TotalTokens               provider.Count `json:"totalTokens"`
	CacheReadInputTokens      provider.Count `json:"cacheReadInputTokens"`
	CacheReadInputTokenCount  provider.Count `json:"cacheReadInputTokenCount"`
	CacheWriteInputTokens     provider.Count `json:"cacheWriteInputTokens"`
	CacheWriteInputTokenCount provider.Count `json:"cacheWriteInputTokenCount"`
	CacheDetails              []cacheDetail  `json:"cacheDetails"`
}

// A cacheDetail is how much was written to the cache to be kept for a time: 5m or 1h.
type cacheDetail struct {
	InputTokens provider.Count `json:"inputTokens"`
	TTL         string         `json:"ttl"`
}

func (u usage) openai() openai.Usage {
	read := int64(max(u.CacheReadInputTokens, u.CacheReadInputTokenCount))
	written := int64(max(u.CacheWriteInputTokens, u.CacheWriteInputTokenCount))
	var hour, split int64
	for _, d := range u.CacheDetails {
		split += int64(d.InputTokens)
		if d.TTL == "1h" {
			hour += int64(d.InputTokens)
		}
	}
	written = max(written, openai.Count(split))
	prompt, completion := int64(u.InputTokens)+read+written, int64(u.OutputTokens)
	return openai.Usage{
		PromptTokens:     prompt,
		CompletionTokens: completion,
		TotalTokens:      max(int64(u.TotalTokens), prompt+completion),
		CachedTokens:     read,
		CacheWriteTokens: written,
		HourWriteTokens:  openai.Count(hour),
		WritesSplit:      split > 0,
	}
}
