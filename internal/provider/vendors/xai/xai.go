// Package xai is the provider xAI, which speaks OpenAI's dialect: https://docs.x.ai/docs/api-reference.
//
// Completion_tokens leave out the reasoning, which only the total includes. What the single
// models refuse, such as stop and the penalties on those that reason, is in the catalog.
package xai

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              "xai",
		DefaultEndpoint:   "https://api.x.ai/v1",
		CredentialEnv:     "XAI_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: legacy.Functions(openaicompat.New(openaicompat.Dialect{
			Vendor:      "xai",
			Unsupported: []string{"logit_bias", "modalities", "audio", "prediction", "verbosity", "functions", "function_call"},
			SystemRole:  true,
		})),
		Native: []string{"/responses", "/images/generations"},
		Models: openaicompat.Models,
	}
}
