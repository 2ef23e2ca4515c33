package responses

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// A response is an answer as the vendor gives it, or the one within an event.
type response struct {
	ID          string          `json:"id"`
	Created     float64         `json:"created_at"`
	Status      string          `json:"status"`
	Error       jsontext.Value  `json:"error"`
	Incomplete  incomplete      `json:"incomplete_details"`
	Output      []output        `json:"output"`
	Usage       *reported.Usage `json:"usage"`
	Tools       reported.Usage  `json:"tool_usage"`
	ServiceTier string          `json:"service_tier"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

// An output is an item of the answer.
type output struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	// Arguments are a string in calls of functions, and an object in other items.
	Arguments jsontext.Value `json:"arguments"`
	Content   []content      `json:"content"`
	Summary   []content      `json:"summary"`
	Encrypted string         `json:"encrypted_content"`
}

type content struct {
	Type        string           `json:"type"`
	Text        string           `json:"text"`
	Refusal     string           `json:"refusal"`
	Annotations []jsontext.Value `json:"annotations"`
	Logprobs    jsontext.Value   `json:"logprobs"`
}

// used returns what was used, with the searches among the items of the output.
func (r *response) used(searches int64) openai.Usage {
	if r.Usage == nil {
		return openai.Usage{}
	}
	told := *r.Usage
	told.Later(&r.Tools)
	used := told.OpenAI()
	if !used.IsZero() && !used.SearchesBilled {
		used.Searches, used.SearchesKnown = max(used.Searches, searches), true
	}
	return used
}

// An answer implements provider.Answer.
type answer struct {
	dialect  *Dialect
	names    *turns.Names
	provider string // whose reasoning it is
}

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var r response
	if err := json.Unmarshal(body, &r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if err := a.failure(&r, body); err != nil {
		return err
	}
	if r.Output == nil {
		return fmt.Errorf("%w: the body has no output", provider.ErrNotAnAnswer)
	}
	var c chat.Choice
	var thoughts []jsontext.Value
	var annotations []jsontext.Value
	searches := int64(0)
	for i := range r.Output {
		o := &r.Output[i]
		switch o.Type {
		case "message":
			for n := range o.Content {
				p := &o.Content[n]
				c.Text, c.Refusal = c.Text+p.Text, c.Refusal+p.Refusal
				annotations = append(annotations, nested(p.Annotations)...)
				c.Logprobs = logprobs(p.Logprobs)
			}
		case "reasoning":
			c.Reasoning += o.thought()
			thoughts = append(thoughts, o.carried()...)
		case "web_search_call":
			searches++
		case "function_call":
			c.Calls = append(c.Calls, chat.Call{ID: a.carry(asked.Carrier, o.CallID, thoughts), Name: a.names.Client(o.Name),
				Arguments: o.arguments()})
			thoughts = nil
		}
	}
	if len(annotations) > 0 {
		c.Annotations = schema.AppendArray(nil, annotations)
	}
	c.FinishReason = r.finish(len(c.Calls) > 0)
	whole := chat.Answer{ID: provider.ID(r.ID), Created: int64(r.Created), Choices: []chat.Choice{c},
		Usage: r.used(searches), ServiceTier: r.ServiceTier}
	whole.Emit(out)
	return nil
}

// failure returns the error that an answer reports.
func (a *answer) failure(r *response, body []byte) error {
	if r.Status == "failed" || r.Status == "cancelled" || turns.Asked(r.Error) {
		return a.dialect.InBand(body)
	}
	return nil
}

// finish returns OpenAI's finish reason.
func (r *response) finish(calls bool) string {
	switch {
	case r.Incomplete.Reason == "max_output_tokens":
		return "length"
	case r.Incomplete.Reason != "":
		return cmp.Or(map[string]string{"content_filter": "content_filter"}[r.Incomplete.Reason], "length")
	case calls:
		return "tool_calls"
	}
	return "stop"
}

// arguments returns the arguments of a call.
func (o *output) arguments() string {
	if o.Arguments.Kind() == '"' {
		return openai.Unquote(o.Arguments)
	}
	return string(o.Arguments)
}

// thought returns the text of reasoning.
func (o *output) thought() string {
	var b bytes.Buffer
	for i, p := range append(o.Summary, o.Content...) {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// carried returns a reasoning item as it must come back, if it must.
func (o *output) carried() []jsontext.Value {
	if o.Encrypted == "" {
		return nil
	}
	raw := openai.AppendString([]byte(`{"type":"reasoning","id":`), o.ID)
	raw = openai.AppendString(append(raw, `,"summary":[],"encrypted_content":`...), o.Encrypted)
	return []jsontext.Value{append(raw, '}')}
}

// carry returns the id of a call with the reasoning items before it.
func (a *answer) carry(by openai.Carrier, id string, thoughts []jsontext.Value) string {
	if len(thoughts) == 0 {
		return id
	}
	var c carried
	c.Responses.Of, c.Responses.Items = a.provider, thoughts
	data, err := json.Marshal(&c)
	if err != nil { // they were read
		return id
	}
	return by.Carry(id, data)
}

// nested returns annotations as chat completions have them: the members are in one with the name of the type.
func nested(annotations []jsontext.Value) []jsontext.Value {
	var out []jsontext.Value
	for _, a := range annotations {
		ms := schema.Members(a)
		if string(schema.Find(ms, "type")) != `"url_citation"` {
			continue
		}
		inner := []schema.Member{}
		for _, m := range ms {
			if m.Name != "type" {
				inner = append(inner, m)
			}
		}
		out = append(out, schema.AppendObject(nil, []schema.Member{
			{Name: "type", Value: jsontext.Value(`"url_citation"`)},
			{Name: "url_citation", Value: schema.AppendObject(nil, inner)}}))
	}
	return out
}

// logprobs returns a list of log probabilities as chat completions have it.
func logprobs(list jsontext.Value) jsontext.Value {
	if !turns.Asked(list) {
		return nil
	}
	return append(append([]byte(`{"content":`), list...), `,"refusal":null}`...)
}

// Stream implements provider.Answer.
func (a *answer) Stream(asked chat.Asked) provider.Stream {
	return &stream{answer: a, carrier: asked.Carrier}
}
