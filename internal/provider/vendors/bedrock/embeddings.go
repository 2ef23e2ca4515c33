package bedrock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/converse"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// An embeddingForm is the body that an embedding model takes.
type embeddingForm struct {
	models []string // how their names begin, from the publisher's on
	// one: a call embeds one text. dimensions: their number can be chosen.
	one, dimensions bool
	// own are the members that the model knows by these names and that pass as they are.
	own   []string
	write func(r *openai.EmbeddingRequest) any
}

// embeddingForms are the forms of the models that InvokeModel serves. Converse has no embeddings.
var embeddingForms = []embeddingForm{
	{models: []string{"amazon.titan-embed-text-v1", "amazon.titan-embed-g1-text"}, one: true, write: titan},
	{models: []string{"amazon.titan-embed-text-v2"}, one: true, dimensions: true, own: []string{"normalize"},
		write: titan},
	{models: []string{"amazon.titan-embed-image-v1"}, one: true, dimensions: true, write: titanImage},
	{models: []string{"amazon.nova-2-multimodal-embeddings"}, one: true, dimensions: true, write: nova},
	{models: []string{"cohere.embed-english-v3", "cohere.embed-multilingual-v3"}, own: []string{"input_type", "truncate"},
		write: cohere},
	{models: []string{"cohere.embed-v4"}, dimensions: true, own: []string{"input_type", "truncate", "max_tokens"},
		write: cohere},
}

// embeddingFormOf returns the form of a model, whose name may have a region before it or be an ARN.
func embeddingFormOf(model string) *embeddingForm {
	model = model[strings.LastIndexByte(model, '/')+1:]
	for i := range embeddingForms {
		for _, begins := range embeddingForms[i].models {
			if _, after, ok := strings.Cut("."+model, "."+begins); ok &&
				(after == "" || strings.IndexByte(":-", after[0]) >= 0) {
				return &embeddingForms[i]
			}
		}
	}
	return nil
}

type embeddingCodec struct{}

// Encode builds a request of InvokeModel.
func (embeddingCodec) Encode(r *openai.EmbeddingRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	form := embeddingFormOf(t.Model)
	if form == nil {
		return provider.Request{}, nil, openai.CodeUnsupportedEndpoint.On("model",
			"The model '%s' of the provider '%s' is not known to give embeddings. Choose another model.", t.Model, name)
	}
	if form.one && len(r.Inputs) > 1 {
		return provider.Request{}, nil, openai.BadValue("input",
			"This model takes one text a request, but got %d. Send one request for each.", len(r.Inputs))
	}
	for i, in := range r.Inputs {
		if in.Tokens != nil {
			return provider.Request{}, nil, openai.BadValue("input",
				"Tokens are not supported by the provider '%s' (input %d). Send texts.", name, i)
		}
	}
	out := provider.Request{Path: converse.OperationPath(t.Model, "invoke"), Header: converse.Headers("application/json")}
	if r.Dimensions > 0 && !form.dimensions {
		if !t.Drops() {
			return provider.Request{}, nil, openai.Unsupported("dimensions", name)
		}
		out.Dropped = append(out.Dropped, "dimensions")
		r = &openai.EmbeddingRequest{Object: r.Object, Inputs: r.Inputs, Base64: r.Base64}
	}
	body, err := json.Marshal(form.write(r))
	if err != nil {
		return provider.Request{}, nil, messages.JSONError(err)
	}
	ms := schema.Members(body)
	gjson.ParseBytes(r.Body).ForEach(func(member, v gjson.Result) bool {
		value := jsontext.Value(v.Raw)
		switch {
		case slices.Contains([]string{"model", "input", "dimensions", "encoding_format"}, member.Str) || !turns.Asked(value):
		case slices.Contains(form.own, member.Str):
			ms = append(schema.Without(ms, member.Str), schema.Member{Name: member.Str, Value: value})
		case v.Type != gjson.False && len(out.Dropped) < turns.MaxNoted:
			out.Dropped = append(out.Dropped, turns.Identifier(member.Str))
		}
		return true
	})
	out.Body = schema.AppendObject(nil, ms)
	return out, embeddingAnswer{provider.VectorsOf(r)}, nil
}

func titan(r *openai.EmbeddingRequest) any {
	return struct {
		InputText  string `json:"inputText"`
		Dimensions int64  `json:"dimensions,omitzero"`
	}{r.Inputs[0].Text, r.Dimensions}
}

func titanImage(r *openai.EmbeddingRequest) any {
	type config struct {
		OutputEmbeddingLength int64 `json:"outputEmbeddingLength,omitzero"`
	}
	return struct {
		InputText       string `json:"inputText"`
		EmbeddingConfig config `json:"embeddingConfig,omitzero"`
	}{r.Inputs[0].Text, config{r.Dimensions}}
}

func nova(r *openai.EmbeddingRequest) any {
	type text struct {
		TruncationMode string `json:"truncationMode"`
		Value          string `json:"value"`
	}
	type params struct {
		EmbeddingPurpose   string `json:"embeddingPurpose"`
		EmbeddingDimension int64  `json:"embeddingDimension,omitzero"`
		Text               text   `json:"text"`
	}
	return struct {
		TaskType string `json:"taskType"`
		Params   params `json:"singleEmbeddingParams"`
	}{"SINGLE_EMBEDDING", params{"GENERIC_INDEX", r.Dimensions, text{"NONE", r.Inputs[0].Text}}}
}

func cohere(r *openai.EmbeddingRequest) any {
	texts := make([]string, len(r.Inputs))
	for i, in := range r.Inputs {
		texts[i] = in.Text
	}
	return struct {
		Texts           []string `json:"texts"`
		InputType       string   `json:"input_type"` // required
		OutputDimension int64    `json:"output_dimension,omitzero"`
	}{texts, "search_document", r.Dimensions}
}

// An embeddingAnswer reads the answer to one request. It is immutable.
type embeddingAnswer struct{ provider.Vectors }

// Decode turns a complete answer into OpenAI's. Each model has its own form; Cohere's says nothing of tokens.
func (a embeddingAnswer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var v struct {
		Embedding           jsontext.Value `json:"embedding"`
		Embeddings          jsontext.Value `json:"embeddings"`
		InputTextTokenCount provider.Count `json:"inputTextTokenCount"`
		InputTokenCount     provider.Count `json:"inputTokenCount"`
	}
	if err := json.Unmarshal(body, &v, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	vectors := []jsontext.Value{v.Embedding}
	if v.Embedding == nil {
		vectors = vectorsOf(v.Embeddings)
	}
	for _, vector := range vectors {
		if vector.Kind() != '[' {
			return fmt.Errorf("%w: an embedding is no array", provider.ErrNotAnAnswer)
		}
	}
	tokens := int64(max(v.InputTextTokenCount, v.InputTokenCount))
	return a.Emit(vectors, openai.Usage{PromptTokens: tokens, TotalTokens: tokens}, asked, out)
}

// vectorsOf reads [[...]], {"float":[[...]]} and [{"embedding":[...]}].
func vectorsOf(embeddings jsontext.Value) []jsontext.Value {
	if embeddings.Kind() == '{' {
		embeddings = schema.Find(schema.Members(embeddings), "float")
	}
	vectors := schema.Elements(embeddings)
	for i, v := range vectors {
		if v.Kind() == '{' {
			vectors[i] = schema.Find(schema.Members(v), "embedding")
		}
	}
	return vectors
}
