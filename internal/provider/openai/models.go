package openai

import "github.com/modelgate/modelgate/internal/provider/openaicompat"

// models says what OpenAI's models need, the first match counting. Reasoning models refuse max_tokens:
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-max_tokens. gpt-5-chat does not reason.
func models() []openaicompat.Model {
	return []openaicompat.Model{
		{Pattern: "gpt-5-chat*"},
		{Pattern: "gpt-5*", MaxCompletionTokens: true},
		{Pattern: "o1*", MaxCompletionTokens: true},
		{Pattern: "o3*", MaxCompletionTokens: true},
		{Pattern: "o4*", MaxCompletionTokens: true},
		{Pattern: "ft:gpt-5*", MaxCompletionTokens: true},
		{Pattern: "ft:o1*", MaxCompletionTokens: true},
		{Pattern: "ft:o3*", MaxCompletionTokens: true},
		{Pattern: "ft:o4*", MaxCompletionTokens: true},
	}
}
