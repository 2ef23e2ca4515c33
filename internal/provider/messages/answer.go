package messages

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// defaultRefusal is what the client reads where the vendor gives no explanation.
const defaultRefusal = "The model declined to answer."

// An Answer reads the answer to one request. It is immutable.
type Answer struct {
	names      map[string]string // the client's names of tools that were renamed
	answerTool string            // the tool whose input is the content, or empty
}

// A message is a complete answer of the vendor.
type message struct {
	Type        string           `json:"type"`
	ID          string           `json:"id"`
	Content     []jsontext.Value `json:"content"`
	StopReason  string           `json:"stop_reason"`
	StopDetails stopDetails      `json:"stop_details"`
	Usage       usage            `json:"usage"`
	Error       *vendorError     `json:"error"`
}

type stopDetails struct {
	Explanation string `json:"explanation"`
}

// refusal returns what the client reads as the refusal.
func (d stopDetails) refusal() string {
	if d.Explanation == "" {
		return defaultRefusal
	}
	return d.Explanation
}

// A contentBlock is one block of an answer, or its beginning in a stream.
type contentBlock struct {
	Type      string         `json:"type"`
	Text      string         `json:"text"`
	Thinking  string         `json:"thinking"`
	Signature string         `json:"signature"`
	Data      string         `json:"data"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
}

// answerParts is what the blocks of an answer add up to for the client.
type answerParts struct {
	text, reasoning strings.Builder
	calls           []contentBlock
	signed          []jsontext.Value
	structured      jsontext.Value // the input of the answer tool
}

// Decode turns a complete answer into a chat completion. An error that the vendor sends with status 200 is an
// *openai.Error; anything else that is no answer is provider.ErrNotAnAnswer.
func (a *Answer) Decode(body []byte, model string, created int64) ([]byte, openai.Usage, error) {
	var m message
	if err := json.Unmarshal(body, &m, lenient); err != nil {
		return nil, openai.Usage{}, fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	switch {
	case m.Error != nil:
		return nil, openai.Usage{}, m.Error.decode(0, nil)
	case m.Type != "message":
		return nil, openai.Usage{}, fmt.Errorf("%w: it is of the type %q", provider.ErrNotAnAnswer, m.Type)
	}
	var p answerParts
	for _, raw := range m.Content {
		if err := a.add(&p, raw); err != nil {
			return nil, openai.Usage{}, fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
	}
	u := m.Usage.openai()
	return a.render(&m, &p, u, model, created), u, nil
}

// add takes in one block. Blocks of tools that the vendor runs itself, and unknown ones, are not the client's.
func (a *Answer) add(p *answerParts, raw jsontext.Value) error {
	var b contentBlock
	if err := json.Unmarshal(raw, &b, lenient); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		p.text.WriteString(b.Text)
	case "thinking":
		p.reasoning.WriteString(b.Thinking)
		if b.Signature != "" {
			p.signed = append(p.signed, raw)
		}
	case "redacted_thinking":
		p.signed = append(p.signed, raw)
	case "tool_use":
		b.Input = compactObject(b.Input)
		switch {
		case a.answerTool == "" || b.Name != a.answerTool:
			p.calls = append(p.calls, b)
		case p.structured == nil:
			p.structured = b.Input
		}
	}
	return nil
}

// compactObject returns a tool's input without white space, in the vendor's order.
func compactObject(input jsontext.Value) jsontext.Value {
	if len(input) == 0 || input.Kind() == 'n' {
		return jsontext.Value("{}")
	}
	if err := input.Compact(lenient, jsontext.PreserveRawStrings(true)); err != nil {
		return jsontext.Value("{}") // it was read as JSON before
	}
	return input
}

// render writes the chat completion.
func (a *Answer) render(m *message, p *answerParts, u openai.Usage, model string, created int64) []byte {
	dst := append(make([]byte, 0, 1024+p.text.Len()+p.reasoning.Len()), `{"id":`...)
	dst = openai.AppendString(dst, m.ID)
	dst = append(dst, `,"object":"chat.completion","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"model":`...)
	dst = openai.AppendString(dst, model)
	dst = append(dst, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	text := p.text.String()
	if p.structured != nil {
		text = string(p.structured) // a forced tool is all there is to the answer
	}
	if text == "" && (len(p.calls) > 0 || m.StopReason == "refusal") {
		dst = append(dst, `null`...)
	} else {
		dst = openai.AppendString(dst, text)
	}
	dst = append(dst, `,"refusal":`...)
	if m.StopReason == "refusal" {
		dst = openai.AppendString(dst, m.StopDetails.refusal())
	} else {
		dst = append(dst, `null`...)
	}
	dst = a.appendReasoning(dst, p)
	dst = a.appendCalls(dst, p.calls)
	dst = append(dst, `},"logprobs":null,"finish_reason":`...)
	dst = openai.AppendString(dst, finishReason(m.StopReason, len(p.calls) > 0))
	dst = append(dst, `}],"usage":`...)
	return append(u.AppendJSON(dst), '}')
}

func (a *Answer) appendReasoning(dst []byte, p *answerParts) []byte {
	if p.reasoning.Len() > 0 {
		dst = append(dst, `,"reasoning_content":`...)
		dst = openai.AppendString(dst, p.reasoning.String())
	}
	for i, raw := range p.signed {
		if i == 0 {
			dst = append(dst, `,"thinking_blocks":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, raw...)
	}
	if len(p.signed) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func (a *Answer) appendCalls(dst []byte, calls []contentBlock) []byte {
	for i, c := range calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[{"id":`...)
		} else {
			dst = append(dst, `,{"id":`...)
		}
		dst = openai.AppendString(dst, c.ID)
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = openai.AppendString(dst, a.clientName(c.Name))
		dst = append(dst, `,"arguments":`...)
		dst = openai.AppendString(dst, string(c.Input))
		dst = append(dst, `}}`...)
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// clientName returns the name by which the client knows a tool.
func (a *Answer) clientName(sent string) string {
	if name, ok := a.names[sent]; ok {
		return name
	}
	return sent
}

// finishReason maps the vendor's stop reasons, unknown ones too, to OpenAI's. calls says whether the client got any tool
// call: an answer that was cut within one is still cut.
func finishReason(stop string, calls bool) string {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	}
	if calls {
		return "tool_calls"
	}
	return "stop"
}
