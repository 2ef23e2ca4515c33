package mistral

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

type embeddingCodec struct{}

// knownInEmbeddings are the members that are read or passed.
var knownInEmbeddings = []string{"model", "input", "dimensions", "encoding_format", "output_dimension", "output_dtype",
	"metadata"}

// Encode implements provider.EmbeddingCodec. Numbers are asked for in any case: base64 is made of them here.
func (embeddingCodec) Encode(r *openai.EmbeddingRequest, t provider.Target) (provider.Request, provider.Answer,
	error) {
	e := &encoder{body: &r.Object, target: t, Omitted: turns.Omitted{Vendor: name, Drops: t.Drops()}}
	for _, in := range r.Inputs {
		if in.Tokens != nil {
			return provider.Request{}, nil, openai.BadValue("input", "The provider '%s' takes no tokens. Send 'input' as text.",
				name)
		}
	}
	e.out = openai.AppendString([]byte(`{"model":`), t.Model)
	e.out = append(e.member("input"), r.Get("input")...)
	if r.Dimensions > 0 {
		e.out = strconv.AppendInt(e.member("output_dimension"), r.Dimensions, 10)
	}
	for _, member := range []string{"output_dimension", "output_dtype", "metadata"} {
		if v := e.native(member); v != nil && (member != "output_dimension" || r.Dimensions == 0) {
			e.out = append(e.member(member), v...)
		}
	}
	e.Ignored(e.body.Body, knownInEmbeddings)
	return provider.Request{
		Path: "/embeddings", Header: http.Header{"Content-Type": {"application/json"}}, Body: append(e.out, '}'),
		Dropped: e.Names,
	}, embeddingAnswer{provider.VectorsOf(r)}, nil
}

// embeddingAnswer implements provider.Answer.
type embeddingAnswer struct{ provider.Vectors }

// Decode implements provider.Answer.
func (a embeddingAnswer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	type embedding struct {
		Index     int            `json:"index"`
		Embedding jsontext.Value `json:"embedding"`
	}
	var r struct {
		response
		Data []embedding `json:"data"`
	}
	if err := json.Unmarshal(body, &r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	switch {
	case r.isError():
		return inBand(body)
	case r.Data == nil:
		return fmt.Errorf("%w: it has no data", provider.ErrNotAnAnswer)
	}
	slices.SortStableFunc(r.Data, func(a, b embedding) int { return cmp.Compare(a.Index, b.Index) })
	vectors := make([]jsontext.Value, len(r.Data))
	for i, d := range r.Data {
		if d.Embedding.Kind() != '[' {
			return fmt.Errorf("%w: an embedding is no list of numbers", provider.ErrNotAnAnswer)
		}
		vectors[i] = d.Embedding
	}
	return a.Emit(vectors, r.Usage.OpenAI(), asked, out)
}
