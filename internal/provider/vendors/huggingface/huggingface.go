// Package huggingface is Hugging Face's router to inference providers, and its own Text Generation Inference servers.
//
// The model runs at another provider, and the answer has that provider's quirks. The model's name can select the
// provider, as in "org/model:provider".
package huggingface

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "huggingface"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://router.huggingface.co/v1",
		CredentialEnv:     "HF_TOKEN",
		CredentialHeaders: []string{"authorization", "x-hf-bill-to"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: legacy.Functions(openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Own: []string{"response_format:json", "response_format:regex", "response_format:grammar",
				"tool_choice.type"},
			Unsupported: []string{"modalities", "audio", "prediction", "web_search_options", "functions", "function_call"},
			Rename:      map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole:  true,
		})),
		Rerank: rerank.New(inference()),
		Native: []string{"/responses"},
		Models: modellist.Models,
	}
}
