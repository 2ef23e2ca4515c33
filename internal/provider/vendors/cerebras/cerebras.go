// Package cerebras is the provider Cerebras, with OpenAI's dialect:
// https://inference-docs.cerebras.ai/resources/openai.
//
// Cerebras is strict. An unknown parameter fails the request, even with a default value, and so does an unknown member
// of a message.
package cerebras

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor: "cerebras",
		Unsupported: []string{
			"n", "frequency_penalty", "presence_penalty", "logit_bias", "modalities", "audio", "verbosity",
			"web_search_options", "functions", "function_call", "top_k",
		},
		MessageMembers: []string{"role", "content", "name", "tool_calls", "tool_call_id", "reasoning"},
		Reasoning:      "reasoning",
		Hints:          openaicompat.AllHints,
		SystemRole:     true,
		Codes: map[string]openai.Code{
			"token_quota_exceeded": openai.CodeRateLimitExceeded, "request_quota_exceeded": openai.CodeRateLimitExceeded,
			"queue_exceeded": openai.CodeRateLimitExceeded,
		},
	}
	return provider.Provider{
		Name:              "cerebras",
		DefaultEndpoint:   "https://api.cerebras.ai/v1",
		CredentialEnv:     "CEREBRAS_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(d)),
		Completion:        openaicompat.NewCompletion(d),
		Models:            modellist.Models,
	}
}
