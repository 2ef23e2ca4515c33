// Package cohere is Cohere's own API, version 2: chat and embeddings.
//
// It looks like OpenAI's API but differs. A stream has its own events. Tool calls come one by one as an object, not as
// an array. Token counts are floats and occur twice, as billed and as used. The plan that the model writes before tool
// calls is not content.
package cohere

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
	"github.com/modelgate/modelgate/internal/provider/legacy"
)

// name is the vendor's.
const name = "cohere"

// Provider returns the vendor.
func Provider() provider.Provider {
	return provider.Provider{
		Name:              name,
		DefaultEndpoint:   "https://api.cohere.com/v2",
		CredentialEnv:     "CO_API_KEY",
		CredentialHeaders: []string{"authorization"},
		Sign:              openaicompat.Bearer,
		DecodeError:       decodeError,
		Chat:              legacy.Functions(chatCodec{}),
		TakesThinking:     true,
		Embedding:         embeddingCodec{},
		Rerank:            rerank.New(reranking()),
		Models:            models().Models,
	}
}

// reranking is the vendor's own form: https://docs.cohere.com/reference/rerank.
func reranking() rerank.Dialect {
	return rerank.Dialect{Vendor: name, Path: rerank.At("/rerank"), Takes: []string{"priority"}, TakesLength: true,
		Body: func(r *openai.RerankRequest, t provider.Target) any {
			return rerank.CohereBody{Model: t.Model, Query: r.Query, Documents: r.Documents, TopN: r.TopN,
				MaxTokensPerDoc: r.MaxTokensPerDoc, Priority: r.Get("priority")}
		}}
}
