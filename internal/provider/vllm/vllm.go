// Package vllm is a vLLM server.
//
// What a newcomer gets wrong: what the server can do depends on how it was started: tools want --enable-auto-tool-choice
// and a parser, reasoning apart from the text wants a reasoning parser, roles are those of the model's chat template.
package vllm

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
)

const name = "vllm"

// Provider returns the vendor.
func Provider() provider.Provider {
	dialect := openaicompat.Dialect{
		Vendor: name,
		Unsupported: []string{
			"modalities", "audio", "prediction", "service_tier", "verbosity", "web_search_options", "functions", "function_call",
		},
		SystemRole:    true,
		Rewrite:       rewrite,
		FinishReasons: map[string]string{"abort": "error", "repetition": "length"},
	}
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "http://localhost:8000/v1",
		CredentialEnv:     "VLLM_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat:              openaicompat.New(dialect),
		Completion:        openaicompat.NewCompletion(openaicompat.Dialect{Vendor: name, FinishReasons: dialect.FinishReasons}),
		Embedding:         openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Native:            []string{"/responses", "/audio/transcriptions", "/audio/translations"},
	}
}

// rewrite leaves out what says nothing and is refused all the same: no tools, and a choice among none.
func rewrite(_ *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	if !gjson.GetBytes(c.Get("tools"), "0").Exists() {
		c.Remove("tools")
		if choice := gjson.ParseBytes(c.Get("tool_choice")); choice.Str == "auto" || choice.Str == "none" {
			c.Remove("tool_choice")
		}
	}
	return nil
}
