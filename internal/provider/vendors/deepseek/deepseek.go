// Package deepseek is DeepSeek's own API.
//
// Thinking is on unless a request turns it off. With thinking, the vendor refuses a tool choice that forces a tool,
// ignores temperature, and requires the reasoning of earlier tool calls.
package deepseek

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "deepseek"

// Provider returns the vendor.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor: name,
		Unsupported: []string{
			"n", "seed", "logit_bias", "parallel_tool_calls", "modalities", "audio", "prediction", "service_tier", "verbosity",
			"web_search_options", "functions", "function_call",
		},
		Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
		SystemRole: true,
		JoinText:   true,
		NoSchemas:  true,
		Carry:      []string{"reasoning_content"},
		Rewrite:    rewrite,
	}
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.deepseek.com",
		CredentialEnv:     "DEEPSEEK_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(d)),
		Completion: openaicompat.NewCompletion(openaicompat.Dialect{
			Vendor:      name,
			Unsupported: []string{"n", "best_of", "seed", "logit_bias"},
			OnePrompt:   true,
			Locate:      func(path string, _ provider.Target) string { return "/beta" + path },
		}),
		Native: []string{"/responses"},
		Models: modellist.Models,
	}
}
