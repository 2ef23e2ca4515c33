// Package perplexity is the provider Perplexity, whose Sonar models answer from a web search, with OpenAI's dialect:
// https://docs.perplexity.ai/api-reference/chat-completions-post.
//
// Every chunk of a stream repeats the whole message, the citations and the usage so far. The stream has no end mark.
package perplexity

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              "perplexity",
		DefaultEndpoint:   "https://api.perplexity.ai",
		CredentialEnv:     "PERPLEXITY_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: openaicompat.New(openaicompat.Dialect{
			Vendor: "perplexity",
			Own:    []string{"response_format:regex"},
			Unsupported: []string{
				"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "n", "seed", "logprobs",
				"top_logprobs",
				"logit_bias", "modalities", "audio", "prediction", "service_tier", "verbosity",
			},
			Hints:           []string{"store"},
			Rename:          map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole:      true,
			NoStreamOptions: true,
			NoDone:          true,
		}),
	}
}
