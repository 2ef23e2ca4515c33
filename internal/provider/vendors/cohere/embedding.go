package cohere

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// maxTexts is how many texts the vendor takes in one request.
const maxTexts = 96

// An embedRequest is the body of POST /embed.
type embedRequest struct {
	Model           string         `json:"model"`
	Texts           []string       `json:"texts"`
	InputType       jsontext.Value `json:"input_type"`
	EmbeddingTypes  []string       `json:"embedding_types"`
	OutputDimension int64          `json:"output_dimension,omitzero"`
	MaxTokens       jsontext.Value `json:"max_tokens,omitzero"`
	Truncate        jsontext.Value `json:"truncate,omitzero"`
	Priority        jsontext.Value `json:"priority,omitzero"`
}

// knownInEmbeddings are the members that are read.
var knownInEmbeddings = []string{
	"model", "input", "dimensions", "encoding_format", "input_type", "embedding_types", "max_tokens", "truncate",
	"priority",
}

type embeddingCodec struct{}

// Encode implements provider.EmbeddingCodec. The vendor makes different embeddings of documents and of queries. A
// client chooses with the vendor's own input_type.
func (embeddingCodec) Encode(r *openai.EmbeddingRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	e := &encoder{body: &r.Object, target: t, Omitted: turns.Omitted{Vendor: name, Drops: t.Drops()}}
	out := embedRequest{
		Model: t.Model, InputType: e.native("input_type"), EmbeddingTypes: []string{"float"}, OutputDimension: r.Dimensions,
		MaxTokens: e.native("max_tokens"), Truncate: e.native("truncate"), Priority: e.native("priority"),
	}
	if out.InputType == nil {
		out.InputType = jsontext.Value(`"search_document"`)
	}
	if len(r.Inputs) > maxTexts {
		return provider.Request{}, nil, openai.CodeArrayAboveMaxLength.On("input",
			"Invalid 'input': array too long. The provider '%s' takes %d texts in one request, but got %d.", name, maxTexts,
			len(r.Inputs))
	}
	for _, in := range r.Inputs {
		if in.Tokens != nil {
			return provider.Request{}, nil, openai.BadValue("input", "The provider '%s' takes no tokens. Send 'input' as text.",
				name)
		}
		out.Texts = append(out.Texts, in.Text)
	}
	var types []string
	if v := e.native("embedding_types"); v != nil && (json.Unmarshal(v, &types) != nil || len(types) != 1 ||
		types[0] != "float") {
		if err := e.Unsupported("embedding_types"); err != nil {
			return provider.Request{}, nil, err
		}
	}
	e.Ignored(e.body.Body, knownInEmbeddings)
	req, err := request("/embed", &out)
	req.Dropped = e.Names
	return req, embeddingAnswer{provider.VectorsOf(r)}, err
}

// embeddingAnswer implements provider.Answer.
type embeddingAnswer struct{ provider.Vectors }

// vectors are the vectors of each requested type.
type vectors struct {
	Float   []jsontext.Value `json:"float"`
	Int8    []jsontext.Value `json:"int8"`
	Uint8   []jsontext.Value `json:"uint8"`
	Binary  []jsontext.Value `json:"binary"`
	Ubinary []jsontext.Value `json:"ubinary"`
}

// UnmarshalJSONFrom reads the types by name, or a list of vectors alone, which are floats.
func (v *vectors) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '[' {
		return json.UnmarshalDecode(dec, &v.Float)
	}
	type byType vectors
	return json.UnmarshalDecode(dec, (*byType)(v))
}

// Decode implements provider.Answer.
func (a embeddingAnswer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var r struct {
		Embeddings vectors        `json:"embeddings"`
		Meta       reported.Usage `json:"meta"`
	}
	if readError(body).message != "" {
		return inBand(body)
	}
	if err := json.Unmarshal(body, &r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	e := &r.Embeddings
	for _, vectors := range [][]jsontext.Value{e.Float, e.Int8, e.Uint8, e.Binary, e.Ubinary} {
		if vectors != nil {
			return a.Emit(vectors, r.Meta.OpenAI(), asked, out)
		}
	}
	return fmt.Errorf("%w: it has no embeddings", provider.ErrNotAnAnswer)
}
