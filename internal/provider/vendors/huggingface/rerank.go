package huggingface

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
)

// inference is the form of a Text Embeddings Inference server, which has one model and names no usage:
// https://huggingface.github.io/text-embeddings-inference/. The router has no such operation.
func inference() rerank.Dialect {
	return rerank.Dialect{Vendor: name, Path: rerank.At("/rerank"),
		Body: func(r *openai.RerankRequest, _ provider.Target) any {
			return struct {
				Query string   `json:"query"`
				Texts []string `json:"texts"`
			}{r.Query, r.Documents}
		},
		Read: func(body []byte) (rerank.Answer, error) {
			var ranks []struct {
				Index int            `json:"index"`
				Score jsontext.Value `json:"score"`
			}
			err := json.Unmarshal(body, &ranks)
			var a rerank.Answer
			for _, r := range ranks {
				a.Results = append(a.Results, rerank.Result(r))
			}
			return a, err
		}}
}
