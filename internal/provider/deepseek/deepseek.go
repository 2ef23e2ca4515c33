// Package deepseek is DeepSeek's own API.
//
// What a newcomer gets wrong: thinking is on unless a request turns it off, and then the vendor refuses a tool choice that
// forces a tool, ignores temperature, and wants the reasoning of earlier tool calls back.
package deepseek

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
)

const name = "deepseek"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.deepseek.com",
		CredentialEnv:     "DEEPSEEK_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat: codec{openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Unsupported: []string{
				"n", "seed", "logit_bias", "parallel_tool_calls", "modalities", "audio", "prediction", "service_tier", "verbosity",
				"web_search_options", "functions", "function_call",
			},
			Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole: true,
			Carry:      "reasoning_content",
			Rewrite:    rewrite,
		})},
		Completion: completions{openaicompat.NewCompletion(openaicompat.Dialect{
			Vendor:      name,
			Unsupported: []string{"n", "best_of", "seed", "logit_bias"},
			Locate:      func(path string, _ provider.Target) string { return "/beta" + path },
		})},
		Native: []string{"/responses"},
	}
}

// completions are of one prompt, and of text.
type completions struct{ provider.CompletionCodec }

// Encode implements provider.CompletionCodec.
func (c completions) Encode(r *openai.CompletionRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	if len(r.Prompts) != 1 {
		return provider.Request{}, nil, openai.BadRequest("prompt", "unsupported_value", "Invalid 'prompt': the provider '%s' takes one text. Send each prompt in a request of its own.", name)
	}
	return c.CompletionCodec.Encode(r, t)
}
