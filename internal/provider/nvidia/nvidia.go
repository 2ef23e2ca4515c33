// Package nvidia is NVIDIA's API catalog, and NIM servers under an endpoint of one's own.
//
// What a newcomer gets wrong: each model has a schema of its own for requests, and refuses any member that is not in it,
// also one that other models of the vendor take.
package nvidia

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
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
		Chat: codec{openaicompat.New(openaicompat.Dialect{
			Vendor: name,
			Unsupported: []string{
				"n", "logit_bias", "store", "metadata", "modalities", "audio", "prediction", "service_tier", "verbosity",
				"web_search_options", "functions", "function_call",
			},
			Rename:     map[string]string{"max_completion_tokens": "max_tokens"},
			SystemRole: true,
			Rewrite:    rewrite,
		})},
		Completion: openaicompat.NewCompletion(openaicompat.Dialect{Vendor: name}),
		Embedding:  openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
	}
}

// hints are parameters on which nothing of the answer depends. The vendor refuses them, so that they are left out.
var hints = []string{"prompt_cache_key", "prompt_cache_retention", "safety_identifier"}

// codec names the hints that were left out.
type codec struct{ provider.ChatCodec }

// Encode implements provider.ChatCodec.
func (c codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	req, answer, err := c.ChatCodec.Encode(r, t)
	for _, hint := range hints {
		if err == nil && r.Has(hint) {
			req.Dropped = append(req.Dropped, hint)
		}
	}
	return req, answer, err
}

// rewrite leaves out what the vendor refuses although it says nothing: hints, no tools, and a choice among none.
func rewrite(_ *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	for _, hint := range hints {
		c.Remove(hint)
	}
	if !gjson.GetBytes(c.Get("tools"), "0").Exists() {
		c.Remove("tools")
		if choice := gjson.ParseBytes(c.Get("tool_choice")); choice.Str == "auto" || choice.Str == "none" {
			c.Remove("tool_choice")
		}
	}
	return nil
}
