package vertex

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
)

// A record is a document of the ranking API. Its id is its index.
type record struct {
	ID      string         `json:"id"`
	Content string         `json:"content,omitzero"`
	Score   jsontext.Value `json:"score,omitzero"`
}

// reranking is the ranking API of Google's Discovery Engine, which has a host of its own: the endpoint of a provider
// for it is https://discoveryengine.googleapis.com/v1/projects/PROJECT/locations/global.
// https://cloud.google.com/generative-ai-app-builder/docs/ranking.
func reranking() rerank.Dialect {
	return rerank.Dialect{
		Vendor: name, Most: 200, Path: rerank.At("/rankingConfigs/default_ranking_config:rank"),
		Body: func(r *openai.RerankRequest, t provider.Target) any {
			records := make([]record, len(r.Documents))
			for i, d := range r.Documents {
				records[i] = record{ID: strconv.Itoa(i), Content: d}
			}
			return struct {
				Model   string   `json:"model"`
				Query   string   `json:"query"`
				Records []record `json:"records"`
				TopN    int      `json:"topN"`
				Ignore  bool     `json:"ignoreRecordDetailsInResponse"`
			}{t.Model, r.Query, records, r.TopN, true}
		},
		Read: func(body []byte) (a rerank.Answer, err error) {
			var v struct {
				Records []record `json:"records"`
			}
			if err := json.Unmarshal(body, &v); err != nil {
				return a, err
			}
			for _, r := range v.Records {
				index, err := strconv.Atoi(r.ID)
				if err != nil {
					return a, err
				}
				a.Results = append(a.Results, rerank.Result{Index: index, Score: r.Score})
			}
			return a, nil
		},
	}
}
