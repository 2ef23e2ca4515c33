// Package zai is Z.AI's own API, which serves the GLM models.
//
// The only effective tool_choice is auto. Thinking is on or off for most models, and an effort for a few. The catalog
// has what a model supports.
package zai

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "zai"

// Provider returns the vendor.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor: name,
		Unsupported: []string{
			"n", "seed", "logit_bias", "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty",
			"parallel_tool_calls", "modalities", "audio", "prediction", "service_tier", "verbosity", "web_search_options",
			"functions", "function_call",
		},
		Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
		SystemRole: true,
		JoinText:   true, // of the assistant and of tools the model sees nothing otherwise
		NoSchemas:  true,
		AutoTools:  true,
		Rewrite:    rewrite,
		Codes: map[string]openai.Code{ // https://docs.z.ai/api-reference/api-code
			"1113": openai.CodeInsufficientQuota, "1211": openai.CodeModelNotFound, "1261": openai.CodeContextLengthExceeded,
			"1301": openai.CodeContentFilter,
		},
	}
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.z.ai/api/paas/v4",
		CredentialEnv:     "ZAI_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(d)),
		Embedding:         openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Native:            []string{"/images/generations", "/audio/transcriptions"},
		Models:            modellist.Models,
	}
}
