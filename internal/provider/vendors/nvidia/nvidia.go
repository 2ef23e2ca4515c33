// Package nvidia is NVIDIA's API catalog, and NIM servers under an own endpoint.
//
// Each model has its own schema of requests, and refuses unknown members, even those of the vendor's other models.
package nvidia

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "nvidia"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://integrate.api.nvidia.com/v1",
		CredentialEnv:     "NVIDIA_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: legacy.Functions(openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Own:    []string{"*"},
			Unsupported: []string{
				"n", "logit_bias", "modalities", "audio", "prediction", "service_tier", "verbosity", "web_search_options",
				"functions",
				"function_call",
			},
			Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole: true,
			Hints:      openaicompat.AllHints,
		})),
		Completion: openaicompat.NewCompletion(openaicompat.Dialect{Vendor: name, Own: []string{"*"}}),
		Embedding:  openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Models:     modellist.Models,
	}
}
