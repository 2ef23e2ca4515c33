// Package openrouter is the provider OpenRouter, which routes to other providers and has OpenAI's dialect:
// https://openrouter.ai/docs/api-reference/overview.
//
// An answer with status 200 may be an error: as a whole, in the middle of a stream, or after its finish reason.
// Reasoning comes twice, as text and as reasoning_details, which must come back with the calls that followed it.
package openrouter

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor:      "openrouter",
		Own:         []string{"*"},
		Unsupported: []string{"n", "functions", "function_call"}, // which it ignores in silence
		Reasoning:   "reasoning",
		Carry:       []string{"reasoning_details"},
	}
	return provider.Provider{
		Name:              "openrouter",
		DefaultEndpoint:   "https://openrouter.ai/api/v1",
		CredentialEnv:     "OPENROUTER_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(d)),
		Completion:        openaicompat.NewCompletion(d),
		Embedding:         openaicompat.NewEmbedding(d),
		Native:            []string{"/responses"},
		Models:            modellist.Models,
	}
}
