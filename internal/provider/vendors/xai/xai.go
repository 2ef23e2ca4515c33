// Package xai is the provider xAI, with OpenAI's dialect: https://docs.x.ai/docs/api-reference.
//
// The count completion_tokens excludes the reasoning, which only the total includes. The catalog has what individual
// models refuse, such as stop and the penalties for reasoning models.
package xai

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
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
		Models: modellist.Models,
	}
}
