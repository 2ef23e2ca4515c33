// Package fireworks is the provider Fireworks AI, with OpenAI's dialect:
// https://docs.fireworks.ai/tools-sdks/openai-compatibility.
//
// Models have long names, accounts/fireworks/models/.... A prompt that is too long is truncated instead of refused,
// unless context_length_exceeded_behavior says otherwise.
package fireworks

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor:      "fireworks",
		Own:         []string{"response_format:grammar", "logprobs", "top_logprobs"},
		Unsupported: []string{"modalities", "audio", "verbosity", "web_search_options"},
		// What follows fails the request otherwise: "Extra inputs are not permitted".
		Hints: []string{"prompt_cache_retention", "prompt_cache_options", "cache_control", "safety_identifier",
			"store"},
		MessageMembers: []string{"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"},
		Rename:         map[string]string{"max_completion_tokens": "max_tokens"},
		SystemRole:     true,
	}
	return provider.Provider{
		Name:              "fireworks",
		Fields:            []string{"project"},
		DefaultEndpoint:   "https://api.fireworks.ai/inference/v1",
		CredentialEnv:     "FIREWORKS_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              openaicompat.New(d),
		Completion:        openaicompat.NewCompletion(d),
		Embedding:         openaicompat.NewEmbedding(d),
		FineTuning:        trainer{},
		Native:            []string{"/responses"},
		Models:            modellist.Models,
	}
}
