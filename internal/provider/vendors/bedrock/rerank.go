package bedrock

import (
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/provider/dialects/rerank"
)

// cohereVersion is the version of Cohere's API in requests of InvokeModel.
const cohereVersion = 2

// reranking is the form of the models that InvokeModel serves, Amazon's and Cohere's:
// https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html.
func reranking() rerank.Dialect {
	return rerank.Dialect{
		Vendor: name, Most: 1000,
		Path: func(t provider.Target) (string, error) {
			if !strings.Contains(t.Model, ".rerank-") {
				return "", openai.CodeUnsupportedEndpoint.On("model",
					"The model '%s' of the provider '%s' is not known to rank documents. Choose another model.", t.Model, name)
			}
			return converse.OperationPath(t.Model, "invoke"), nil
		},
		Body: func(r *openai.RerankRequest, t provider.Target) any {
			body := rerank.CohereBody{Query: r.Query, Documents: r.Documents, TopN: r.TopN}
			if strings.Contains(t.Model, "cohere.") {
				body.APIVersion = cohereVersion
			}
			return body
		},
	}
}
