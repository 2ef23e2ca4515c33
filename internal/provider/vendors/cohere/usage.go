package cohere

import (
	"cmp"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// usage is what the vendor counts. What is billed is another matter, for text that the vendor adds to the prompt is
// not; it is taken where nothing else is there.
type usage struct {
	Tokens tokens         `json:"tokens"`
	Billed tokens         `json:"billed_units"`
	Cached provider.Count `json:"cached_tokens"`
}

type tokens struct {
	Input     provider.Count `json:"input_tokens"`
	Output    provider.Count `json:"output_tokens"`
	Reasoning provider.Count `json:"reasoning_tokens"`
}

func (u *usage) openai() openai.Usage {
	t := cmp.Or(u.Tokens, u.Billed)
	return openai.Usage{
		PromptTokens: int64(t.Input), CompletionTokens: int64(t.Output), TotalTokens: int64(t.Input + t.Output),
		CachedTokens: int64(u.Cached), ReasoningTokens: int64(t.Reasoning),
	}
}
