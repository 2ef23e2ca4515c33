// Package llamacpp is llama.cpp's llama-server.
//
// The server has one model and ignores the requested one. Tools require --jinja. It treats a tool_choice that is an
// object as auto.
package llamacpp

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "llamacpp"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "http://localhost:8080/v1",
		CredentialEnv:     "LLAMA_API_KEY",
		CredentialHeaders: []string{"authorization", "x-api-key"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: legacy.Functions(openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Own:    []string{"*", openai.Unnamed},
			Unsupported: []string{
				"modalities", "audio", "prediction", "service_tier", "verbosity", "web_search_options", "functions",
				"function_call",
			},
			Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole: true,
			Rewrite:    rewrite,
		})),
		Completion: openaicompat.NewCompletion(openaicompat.Dialect{Vendor: name, Own: []string{"*"}}),
		Embedding:  openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Models:     modellist.Models,
	}
}
