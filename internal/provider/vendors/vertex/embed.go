package vertex

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/gemini"
)

type embedding struct{}

// embedders says how models embed, by how their names begin: how many texts a request may have, and whether it asks
// for the embedding of one content, or for predictions
// (https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings).
var embedders = []struct {
	prefix  string
	content bool
	texts   int
}{
	{"gemini-embedding-2", true, 1},
	{"gemini-embedding", false, 1},
	{"", false, 250},
}

// An instance is one text of a request for predictions.
type instance struct {
	Content  string         `json:"content"`
	TaskType jsontext.Value `json:"task_type,omitzero"`
	Title    jsontext.Value `json:"title,omitzero"`
}

type parameters struct {
	Dimensions   int64          `json:"outputDimensionality,omitzero"`
	AutoTruncate jsontext.Value `json:"autoTruncate,omitzero"`
}

// A predictRequest asks for predictions; Instances are the instances of embeddings.
type predictRequest struct {
	Instances  []instance `json:"instances"`
	Parameters parameters `json:"parameters,omitzero"`
}

// A contentRequest asks for the embedding of a content.
type contentRequest struct {
	Content struct {
		Parts []textPart `json:"parts"`
	} `json:"content"`
	TaskType jsontext.Value `json:"taskType,omitzero"`
	Title    jsontext.Value `json:"title,omitzero"`
	parameters
}

type textPart struct {
	Text string `json:"text"`
}

// Encode implements provider.EmbeddingCodec.
func (embedding) Encode(r *openai.EmbeddingRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	family, model := familyOf(t.Model)
	if family != google {
		return provider.Request{}, nil, openai.CodeUnsupportedValue.On("model",
			"Embeddings of the model '%s' are not supported by the provider '%s'.", t.Model, name)
	}
	embedder := embedders[0]
	for _, embedder = range embedders {
		if strings.HasPrefix(model, embedder.prefix) {
			break
		}
	}
	texts, err := gemini.Texts(name, r, embedder.texts)
	if err != nil {
		return provider.Request{}, nil, err
	}
	own, dropped := gemini.EmbeddingMembers(r)
	p := parameters{r.Dimensions, own["autoTruncate"]}
	var body any
	method, answer := ":predict", gemini.Embeddings{Vectors: provider.VectorsOf(r), List: "predictions",
		Values: "embeddings.values", Tokens: "embeddings.statistics.token_count"}
	if embedder.content {
		c := &contentRequest{TaskType: own["taskType"], Title: own["title"], parameters: p}
		c.Content.Parts = []textPart{{texts[0]}}
		body, method, answer = c, ":embedContent", gemini.Embeddings{Vectors: provider.VectorsOf(r), List: "embedding",
			Values: "values"}
	} else {
		c := &predictRequest{Parameters: p}
		for _, text := range texts {
			c.Instances = append(c.Instances, instance{text, own["taskType"], own["title"]})
		}
		body = c
	}
	encoded, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return provider.Request{}, nil, openai.CodeInvalidValue.On("input",
			"The request could not be translated: %v.", err)
	}
	return provider.Request{
		Path: resource("google", model) + method, Header: http.Header{"Content-Type": {"application/json"}}, Body: encoded,
		Dropped: dropped,
	}, answer, nil
}
