package cohere

import "github.com/modelgate/modelgate/api/openai"

// usage is what the vendor counts, in floats. What is billed is another matter: text that the vendor adds to the prompt is
// not.
type usage struct {
	Tokens struct {
		Input     float64 `json:"input_tokens"`
		Output    float64 `json:"output_tokens"`
		Reasoning float64 `json:"reasoning_tokens"`
	} `json:"tokens"`
	Cached float64 `json:"cached_tokens"`
}

func (u *usage) openai() openai.Usage {
	return openai.Usage{
		PromptTokens: count(u.Tokens.Input), CompletionTokens: count(u.Tokens.Output), TotalTokens: count(u.Tokens.Input) + count(u.Tokens.Output),
		CachedTokens: count(u.Cached), ReasoningTokens: count(u.Tokens.Reasoning),
	}
}

func count(n float64) int64 { return openai.Count(int64(min(max(n, 0), openai.MaxTokens))) }
