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
	CacheCreation            written        `json:"cache_creation"`
	OutputTokens             provider.Count `json:"output_tokens"`
	OutputTokensDetails      struct {
		ThinkingTokens provider.Count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	ServerToolUse *serverToolUse `json:"server_tool_use"`
	ServiceTier   string         `json:"service_tier"`
}

// serverToolUse is how often the vendor ran tools of its own.
type serverToolUse struct {
	WebSearches provider.Count `json:"web_search_requests"`
}

// written is how much of CacheCreationInputTokens is kept how long.
type written struct {
	Brief provider.Count `json:"ephemeral_5m_input_tokens"`
	Hour  provider.Count `json:"ephemeral_1h_input_tokens"`
}

// merge takes in a later count. Every count is of the whole answer so far, and one that is 0 says nothing.
func (u *usage) merge(later usage) {
	for _, c := range []struct{ to, from *provider.Count }{
		{&u.InputTokens, &later.InputTokens},
		{&u.CacheCreationInputTokens, &later.CacheCreationInputTokens},
		{&u.CacheCreation.Brief, &later.CacheCreation.Brief},
		{&u.CacheCreation.Hour, &later.CacheCreation.Hour},
		{&u.CacheReadInputTokens, &later.CacheReadInputTokens},
		{&u.OutputTokens, &later.OutputTokens},
		{&u.OutputTokensDetails.ThinkingTokens, &later.OutputTokensDetails.ThinkingTokens},
	} {
		if *c.from > 0 {
			*c.to = *c.from
		}
	}
	if later.ServerToolUse != nil {
		u.ServerToolUse = later.ServerToolUse
	}
}

func (u usage) openai() openai.Usage {
	brief, hour := int64(u.CacheCreation.Brief), int64(u.CacheCreation.Hour)
	written, read, out := max(int64(u.CacheCreationInputTokens), brief+hour), int64(u.CacheReadInputTokens),
		int64(u.OutputTokens)
	prompt := int64(u.InputTokens) + written + read
	searches := int64(0)
	if u.ServerToolUse != nil {
		searches = int64(u.ServerToolUse.WebSearches)
	}
	return openai.Usage{
		PromptTokens:     prompt,
		CompletionTokens: out,
		TotalTokens:      prompt + out,
		CachedTokens:     read,
		CacheWriteTokens: written,
		HourWriteTokens:  hour,
		WritesSplit:      brief+hour > 0,
		Searches:         searches,
		SearchesKnown:    u.ServerToolUse != nil && prompt+out > 0,
		ReasoningTokens:  int64(u.OutputTokensDetails.ThinkingTokens),
	}
}
