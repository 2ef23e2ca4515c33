package cohere

import (
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
)

// reranking is the vendor's own form: https://docs.cohere.com/reference/rerank.
func reranking() rerank.Dialect {
	return rerank.Dialect{Vendor: name, Path: rerank.At("/rerank"), Takes: []string{"priority"}, TakesLength: true,
		Body: func(r *openai.RerankRequest, t provider.Target) any {
			return rerank.CohereBody{Model: t.Model, Query: r.Query, Documents: r.Documents, TopN: r.TopN,
				MaxTokensPerDoc: r.MaxTokensPerDoc, Priority: r.Get("priority")}
		}}
}
