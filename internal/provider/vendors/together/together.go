// Package together is the provider Together AI, with OpenAI's dialect:
// https://docs.together.ai/docs/inference/openai-compatibility.
//
// The parameter logprobs is a number instead of a boolean, and the answer has lists instead of OpenAI's objects.
package together

import (
	"cmp"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
)

// Provider returns the provider. It is safe for concurrent use.
func Provider() provider.Provider {
	d := openaicompat.Dialect{
		Vendor:      "together",
		Own:         []string{"response_format:regex", "response_format.json_schema", "logprobs"},
		Unsupported: []string{"modalities", "audio", "prediction", "service_tier", "verbosity", "web_search_options"},
		Rename:      map[string]string{"max_completion_tokens": "max_tokens"},
		Hints:       []string{"store"},
		Reasoning:   "reasoning",
		SystemRole:  true,
		Rewrite:     logprobs,
	}
	return provider.Provider{
		Name:              "together",
		DefaultEndpoint:   "https://api.together.xyz/v1",
		CredentialEnv:     "TOGETHER_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       d.DecodeError,
		Chat:              openaicompat.New(d),
		Completion:        openaicompat.NewCompletion(d),
		Embedding:         openaicompat.NewEmbedding(d),
		Rerank:            rerank.New(rerank.Dialect{Vendor: d.Vendor, Path: rerank.At("/rerank"), Body: rerank.BodyOf}),
		FineTuning:        trainer{},
		Native:            []string{"/images/generations", "/audio/speech", "/audio/transcriptions", "/audio/translations"},
		Models:            modellist.Models,
	}
}

// logprobs makes a number of OpenAI's two members: how many of the likeliest tokens each place has.
func logprobs(_ *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	wanted, top := string(c.Get("logprobs")), string(c.Get("top_logprobs"))
	c.Remove("top_logprobs")
	switch wanted {
	case "false":
		c.Remove("logprobs")
	case "true":
		if top == "0" {
			top = ""
		}
		c.Set("logprobs", []byte(cmp.Or(top, "1")))
	}
	return nil
}
