package gemini

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

type embedding struct{ vendor string }

// Embedding returns the codec of embeddings, several texts in a request, of a vendor.
func Embedding(vendor string) provider.EmbeddingCodec { return embedding{vendor} }

// An embedRequest asks for the embedding of one text.
type embedRequest struct {
	Model      string         `json:"model,omitzero"`
	Content    content        `json:"content"`
	Dimensions int64          `json:"outputDimensionality,omitzero"`
	TaskType   jsontext.Value `json:"taskType,omitzero"`
	Title      jsontext.Value `json:"title,omitzero"`
}

// maxEmbeddings is how many texts the vendor takes in one request.
const maxEmbeddings = 100

// Encode implements provider.EmbeddingCodec.
func (e embedding) Encode(r *openai.EmbeddingRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	texts, err := Texts(e.vendor, r, maxEmbeddings)
	if err != nil {
		return provider.Request{}, nil, err
	}
	var body struct {
		Requests []embedRequest `json:"requests"`
	}
	path := Resource(t.Model)
	own, dropped := EmbeddingMembers(r)
	for _, text := range texts {
		body.Requests = append(body.Requests, embedRequest{
			Model: path[1:], Content: content{Parts: []part{{Text: text}}}, Dimensions: r.Dimensions,
			TaskType: own["taskType"], Title: own["title"],
		})
	}
	encoded, err := json.Marshal(&body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return provider.Request{}, nil, openai.CodeInvalidValue.On("input",
			"The request could not be translated: %v.", err)
	}
	return provider.Request{
		Path: path + ":batchEmbedContents", Header: http.Header{"Content-Type": {"application/json"}}, Body: encoded,
		Dropped: dropped,
	}, Embeddings{Vectors: provider.VectorsOf(r), List: "embeddings", Values: "values"}, nil
}

// Texts returns the texts of a request, at most limit, and no tokens.
func Texts(vendor string, r *openai.EmbeddingRequest, limit int) ([]string, error) {
	if len(r.Inputs) > limit {
		return nil, openai.CodeUnsupportedValue.On("input",
			"Invalid 'input': this model of the provider '%s' takes no more than %d in one request, but there are %d texts.",
			vendor, limit, len(r.Inputs))
	}
	texts := make([]string, len(r.Inputs))
	for i, input := range r.Inputs {
		if input.Tokens != nil {
			return nil, openai.CodeUnsupportedValue.On("input",
				"Invalid 'input': the provider '%s' takes texts, not tokens. Send strings.", vendor)
		}
		if texts[i] = input.Text; input.Text == "" {
			return nil, openai.CodeInvalidValue.On("input", "Invalid 'input': the text %d is empty.", i)
		}
	}
	return texts, nil
}

// EmbeddingMembers returns a request's parameters of Google's own, and the names of unknown ones.
func EmbeddingMembers(r *openai.EmbeddingRequest) (own map[string]jsontext.Value, dropped []string) {
	own = map[string]jsontext.Value{}
	for _, m := range schema.Members(r.Body) {
		switch name := camelCase(m.Name); {
		case !turns.Asked(m.Value), slices.Contains([]string{"model", "input", "dimensions", "encoding_format"}, m.Name):
		case slices.Contains([]string{"taskType", "title", "autoTruncate"}, name):
			own[name] = m.Value
		case len(dropped) < turns.MaxNoted:
			dropped = append(dropped, headerName(m.Name))
		}
	}
	return own, dropped
}

// Embeddings reads an answer with embeddings. It implements provider.Answer.
type Embeddings struct {
	provider.Vectors
	List   string // the member that lists what there is for each text, or holds what there is for the only one
	Values string // the path of the vector within that
	Tokens string // the path of the number of tokens within that, if it is reported
}

// Decode implements provider.Answer.
func (a Embeddings) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	if !jsonwalk.Valid(body) {
		return fmt.Errorf("%w: it is not JSON", provider.ErrNotAnAnswer)
	}
	root := gjson.ParseBytes(body)
	if e := root.Get("error"); e.IsObject() {
		return readError(e).decode(0, nil)
	}
	var vectors []jsontext.Value
	told := reported.Read([]byte(root.Get("usageMetadata").Raw))
	usage := told.OpenAI()
	list := root.Get(a.List)
	if !list.Exists() {
		list = root.Get("embedding") // what there is for one text
	}
	for _, e := range list.Array() {
		v := e.Get(a.Values)
		if !v.IsArray() {
			return fmt.Errorf("%w: it lacks a vector", provider.ErrNotAnAnswer)
		}
		vector := jsontext.Value(strings.Clone(v.Raw))
		if err := vector.Compact(); err != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
		vectors = append(vectors, vector)
		if a.Tokens != "" {
			usage.PromptTokens = openai.Count(usage.PromptTokens + openai.Count(e.Get(a.Tokens).Int()))
		}
	}
	usage.TotalTokens = usage.PromptTokens
	return a.Emit(vectors, usage, asked, out)
}
