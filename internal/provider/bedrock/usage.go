package bedrock

import "github.com/modelgate/modelgate/api/openai"

// usage is the vendor's count of tokens. InputTokens includes no cached ones, TotalTokens all. The cached ones have two names.
type usage struct {
	InputTokens               int64 `json:"inputTokens"`
	OutputTokens              int64 `json:"outputTokens"`
	TotalTokens               int64 `json:"totalTokens"`
	CacheReadInputTokens      int64 `json:"cacheReadInputTokens"`
	CacheReadInputTokenCount  int64 `json:"cacheReadInputTokenCount"`
	CacheWriteInputTokens     int64 `json:"cacheWriteInputTokens"`
	CacheWriteInputTokenCount int64 `json:"cacheWriteInputTokenCount"`
}

func (u usage) openai() openai.Usage {
	read := openai.Count(max(u.CacheReadInputTokens, u.CacheReadInputTokenCount))
	written := openai.Count(max(u.CacheWriteInputTokens, u.CacheWriteInputTokenCount))
	prompt, completion := openai.Count(u.InputTokens)+read+written, openai.Count(u.OutputTokens)
	return openai.Usage{
		PromptTokens:     prompt,
		CompletionTokens: completion,
		TotalTokens:      max(openai.Count(u.TotalTokens), prompt+completion),
		CachedTokens:     read,
		CacheWriteTokens: written,
	}
}
