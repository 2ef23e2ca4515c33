// Package vllm is a vLLM server.
//
// Its features depend on the options of its start: tools require --enable-auto-tool-choice and a parser, separate
// reasoning requires a reasoning parser, and the chat template of the model defines the roles.
package vllm

import (
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/modellist"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

const name = "vllm"

// Provider returns the vendor.
func Provider() provider.Provider {
	dialect := openaicompat.Dialect{
		Vendor: name,
		Own:    []string{"*"},
		Unsupported: []string{
			"modalities", "audio", "prediction", "service_tier", "verbosity", "web_search_options", "functions",
			"function_call",
		},
		SystemRole: true,
	}
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "http://localhost:8000/v1",
		CredentialEnv:     "VLLM_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       openaicompat.DecodeError,
		Chat:              legacy.Functions(openaicompat.New(dialect)),
		Completion:        openaicompat.NewCompletion(openaicompat.Dialect{Vendor: name, Own: []string{"*"}}),
		Embedding:         openaicompat.NewEmbedding(openaicompat.Dialect{Vendor: name}),
		Rerank:            rerank.New(rerank.Dialect{Vendor: name, Path: rerank.At("/rerank"), Body: rerank.BodyOf}),
		Native:            []string{"/responses", "/audio/transcriptions", "/audio/translations"},
		Models:            modellist.Models,
	}
}
