package gemini

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	dialect "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// An embedBody asks for the embedding of one content.
type embedBody struct {
	Content    content `json:"content"`
	TaskType   string  `json:"taskType"`
	Title      string  `json:"title"`
	Dimensions *int64  `json:"outputDimensionality"`
}

// An embedAllBody asks for the embeddings of several.
type embedAllBody struct {
	Requests []embedBody `json:"requests"`
}

// An embedRequest is a request for embeddings.
type embedRequest struct{ *openai.EmbeddingRequest }

func parseEmbed(h inbound.Head, data []byte) (inbound.Request, error) {
	var one embedBody
	model, _, _ := split(h.Path)
	sent, err := object(model, data)
	if err != nil {
		return inbound.Request{}, err
	}
	if err := embedShape.read(data, &one); err != nil {
		return inbound.Request{}, notRead(err)
	}
	return embedAs(sent, model, []string{"content"}, []embedBody{one})
}

func parseEmbedAll(h inbound.Head, data []byte) (inbound.Request, error) {
	var all embedAllBody
	model, _, _ := split(h.Path)
	sent, err := object(model, data)
	if err != nil {
		return inbound.Request{}, err
	}
	if err := embedAllShape.read(data, &all); err != nil {
		return inbound.Request{}, notRead(err)
	}
	if len(all.Requests) == 0 {
		return inbound.Request{}, required("requests")
	}
	places := make([]string, len(all.Requests))
	for i := range places {
		places[i] = fmt.Sprintf("requests[%d].content", i)
	}
	return embedAs(sent, model, places, all.Requests)
}

// embedAs makes OpenAI's request of contents that are at places. They share the other parameters.
func embedAs(sent *openai.Members, model string, places []string, bodies []embedBody) (inbound.Request, error) {
	first := &bodies[0]
	asked := struct {
		Model      string   `json:"model"`
		Input      []string `json:"input"`
		Dimensions *int64   `json:"dimensions,omitzero"`
		TaskType   string   `json:"taskType,omitzero"`
		Title      string   `json:"title,omitzero"`
	}{model, nil, first.Dimensions, first.TaskType, first.Title}
	for i := range bodies {
		one := &bodies[i]
		if one.TaskType != first.TaskType || one.Title != first.Title ||
			(one.Dimensions == nil) != (first.Dimensions == nil) ||
			one.Dimensions != nil && *one.Dimensions != *first.Dimensions {
			return inbound.Request{}, openai.CodeUnsupportedValue.On(places[i],
				"%s: All requests must have the same taskType, title and outputDimensionality.", places[i])
		}
		text := ""
		for n := range one.Content.Parts {
			p := &one.Content.Parts[n]
			if p.Text == nil {
				return inbound.Request{}, unknownPart(fmt.Sprintf("%s.parts[%d]", places[i], n), p, "text")
			}
			text += *p.Text
		}
		if text == "" {
			return inbound.Request{}, required(places[i])
		}
		asked.Input = append(asked.Input, text)
	}
	encoded, err := json.Marshal(asked)
	if err != nil {
		return inbound.Request{}, err
	}
	r, err := openai.ParseEmbeddingRequest(encoded)
	if err != nil {
		return inbound.Request{}, err
	}
	return inbound.Request{Model: r.Model, Sent: sent, Encoder: embedRequest{r}}, nil
}

// Encode implements inbound.Encoder.
func (r embedRequest) Encode(v *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if v.Embedding == nil {
		return provider.Request{}, nil, dialect.NotServed(t, "embeddings")
	}
	return v.Embedding.Encode(r.EmbeddingRequest, t)
}

// An embedding writes OpenAI's list of embeddings as Google's. It implements chat.Writer.
type embedding struct {
	asked chat.Asked
	list  bool
	body  []byte
}

// Put implements chat.Sink.
func (d *embedding) Put(e chat.Event) {
	if e.Kind != chat.KindChunk {
		return
	}
	d.body = append(d.body[:0], `{"embedding`...)
	if d.list {
		d.body = append(d.body, `s":[`...)
	} else {
		d.body = append(d.body, `":`...)
	}
	for i, of := range gjson.GetBytes(e.JSON, "data").Array() {
		if i > 0 {
			d.body = append(d.body, ',')
		}
		d.body = append(append(append(d.body, `{"values":`...), of.Get("embedding").Raw...), '}')
	}
	if d.list {
		d.body = append(d.body, ']')
	}
	d.body = append(d.body, '}')
}

// Take implements chat.Writer.
func (d *embedding) Take() []byte { return d.body }

// Len implements chat.Writer.
func (d *embedding) Len() int { return len(d.body) }
