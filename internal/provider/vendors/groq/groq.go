// Package groq is the provider Groq, with OpenAI's dialect: https://console.groq.com/docs/openai.
//
// Groq is strict. An unknown member of a message fails the whole request, even a member of its own answer, such as
// reasoning_content, which is the gateway's name for it.
package groq

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              "groq",
		DefaultEndpoint:   "https://api.groq.com/openai/v1",
		CredentialEnv:     "GROQ_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: openaicompat.New(openaicompat.Dialect{
			Vendor: "groq",
			Unsupported: []string{
				"n", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "modalities", "audio",
				"prediction",
				"verbosity", "web_search_options", "top_k",
			},
			MessageMembers: []string{"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "reasoning"},
			Reasoning:      "reasoning",
			Hints:          openaicompat.AllHints,
			SystemRole:     true,
		}),
		Native: []string{"/responses", "/audio/speech", "/audio/transcriptions", "/audio/translations"},
		Models: models().Models,
	}
}
