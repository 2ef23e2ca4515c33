// Package moonshot is Moonshot AI's own API, which serves the Kimi models.
//
// A thinking Kimi refuses a conversation whose tool calls lack their reasoning, which OpenAI's clients do not keep.
// The ids of calls carry it. If it is missing, a blank replaces it.
package moonshot

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "moonshot"

// Provider returns the vendor.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor: name,
		Unsupported: []string{
			"seed", "logit_bias", "logprobs", "top_logprobs", "parallel_tool_calls", "modalities", "audio", "prediction",
			"service_tier", "verbosity", "web_search_options", "functions", "function_call",
		},
		Rename:     map[string]string{"max_tokens": "max_completion_tokens"},
		SystemRole: true,
		JoinText:   true,
		Carry:      []string{"reasoning_content"},
		Rewrite:    rewrite,
		Codes: map[string]openai.Code{ // its errors have types, but no codes
			"exceeded_current_quota_error": openai.CodeInsufficientQuota,
			"engine_overloaded_error":      openai.CodeOverloaded,
			"rate_limit_reached_error":     openai.CodeRateLimitExceeded,
			"content_filter":               openai.CodeContentFilter,
		},
	}
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.moonshot.ai/v1",
		CredentialEnv:     "MOONSHOT_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(d)),
		Models:            modellist.Models,
	}
}
