// Package ollama is an Ollama server, or ollama.com under its endpoint.
//
// The server silently ignores unknown members and tool_choice. It accepts images only as data, not by URL.
package ollama

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "ollama"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "http://localhost:11434/v1",
		CredentialEnv:     "OLLAMA_API_KEY",
		CredentialHosts:   []string{"ollama.com"},
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: legacy.Functions(openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Own:    []string{"max_tokens", "max_completion_tokens", "messages.role"},
			Unsupported: []string{
				"n", "logit_bias", "parallel_tool_calls", "modalities", "audio", "prediction", "service_tier", "verbosity",
				"web_search_options", "functions", "function_call",
			},
			Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole: true,
			JoinText:   true, // it would make messages of the parts, and forget which call a result is for
			AutoTools:  true,
			Reasoning:  "reasoning",
			Rewrite:    rewrite,
		})),
		Completion: openaicompat.NewCompletion(openaicompat.Dialect{
			Vendor:      name,
			Own:         []string{"max_tokens"},
			Unsupported: []string{"n", "best_of", "echo", "logit_bias", "logprobs"},
			OnePrompt:   true,
		}),
		Embedding: openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Native:    []string{"/responses"},
		Models:    modellist.Models,
	}
}
