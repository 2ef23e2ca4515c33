package messages

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// defaultRefusal is the text for the client if the vendor gives no explanation.
const defaultRefusal = "The model declined to answer."

// An Answer reads the answer to one request. It is immutable.
type Answer struct {
	names      *turns.Names // as the client knows the tools
	answerTool string       // the tool whose input is the content, or empty
}

// A message is a complete answer of the vendor.
type message struct {
	Type        string           `json:"type"`
	ID          string           `json:"id"`
	Content     []jsontext.Value `json:"content"`
	StopReason  string           `json:"stop_reason"`
	StopDetails stopDetails      `json:"stop_details"`
	Usage       reported.Usage   `json:"usage"`
	Error       jsontext.Value   `json:"error"`
}

type stopDetails struct {
	Explanation string `json:"explanation"`
}

// refusal returns what the client reads as the refusal.
func (d stopDetails) refusal() string {
	if strings.TrimSpace(d.Explanation) == "" {
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
	Citations []citation     `json:"citations"`
}

// answerParts is the client's answer, joined from its blocks.
type answerParts struct {
	text, reasoning strings.Builder
	characters      int // of text
	annotations     []byte
	calls           []chat.Call
	thoughts        []Thought
	carried         int // how many of thoughts the calls carry
	carrier         openai.Carrier
	structured      jsontext.Value // the input of the answer tool
}

// Decode turns a complete answer into a chat completion. An error that the vendor sends with status 200 is an
// *openai.Error; anything else that is no answer is provider.ErrNotAnAnswer.
func (a *Answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var m message
	if err := json.Unmarshal(body, &m, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	switch {
	case turns.Asked(m.Error):
		return readError(body).decode(0, nil)
	case m.Type != "message":
		return fmt.Errorf("%w: it is of the type %q", provider.ErrNotAnAnswer, m.Type)
	}
	p := answerParts{carrier: asked.Carrier}
	for _, raw := range m.Content {
		if err := a.add(&p, raw); err != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
	}
	u := m.Usage.OpenAI()
	p.tell(&m, u, out)
	return nil
}

// isBlock reports whether blocks of the type are the client's. Those of tools that the vendor runs itself, and unknown
// ones, are not; their members may mean anything.
func isBlock(typ string) bool {
	return typ == "text" || typ == "thinking" || typ == "redacted_thinking" || typ == "tool_use"
}

// add takes in one block.
func (a *Answer) add(p *answerParts, raw jsontext.Value) error {
	if raw.Kind() == '{' && !isBlock(gjson.GetBytes(raw, "type").Str) {
		return nil
	}
	var b contentBlock
	if err := json.Unmarshal(raw, &b, provider.Lenient); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		begun := p.characters
		p.characters += utf8.RuneCountInString(b.Text)
		p.text.WriteString(b.Text)
		p.annotations = appendAnnotations(p.annotations, b.Citations, begun, p.characters)
	case "thinking":
		p.reasoning.WriteString(b.Thinking)
		if b.Signature != "" {
			p.thoughts = append(p.thoughts, Thought{Text: b.Thinking, Signature: b.Signature, raw: raw})
		}
	case "redacted_thinking":
		p.thoughts = append(p.thoughts, Thought{Redacted: b.Data, raw: raw})
	case "tool_use":
		input := CompactObject(b.Input)
		switch {
		case a.answerTool == "" || b.Name != a.answerTool:
			id := CarryThoughts(p.carrier, b.ID, p.thoughts[p.carried:])
			p.carried = len(p.thoughts)
			p.calls = append(p.calls, chat.Call{ID: id, Name: a.names.Client(b.Name), Arguments: string(input)})
		case p.structured == nil:
			p.structured = input
		}
	}
	return nil
}

// CompactObject returns a tool's input without white space, in the vendor's order.
func CompactObject(input jsontext.Value) jsontext.Value {
	if len(input) == 0 || input.Kind() == 'n' || string(input) == `""` {
		return jsontext.Value("{}")
	}
	if err := input.Compact(provider.Lenient, jsontext.PreserveRawStrings(true)); err != nil {
		return jsontext.Value("{}") // it was read as JSON before
	}
	return input
}

// tell tells what the answer says.
func (p *answerParts) tell(m *message, u openai.Usage, out chat.Sink) {
	choice := chat.Choice{
		Text: p.text.String(), Reasoning: p.reasoning.String(), Calls: p.calls, FinishReason: finishReason(m.StopReason,
			len(p.calls) > 0),
	}
	if p.structured != nil {
		choice.Text = string(p.structured) // a forced tool is all there is to the answer
	}
	if m.StopReason == "refusal" {
		choice.Refusal = m.StopDetails.refusal()
	}
	if len(p.thoughts) > 0 {
		choice.ThinkingBlocks = AppendThoughts(nil, p.thoughts)
	}
	if len(p.annotations) > 0 && p.structured == nil {
		choice.Annotations = slices.Concat([]byte("["), p.annotations, []byte("]"))
	}
	answer := chat.Answer{
		ID: answerID(m.ID), Choices: []chat.Choice{choice}, Usage: u, ServiceTier: m.Usage.Tier(),
	}
	answer.Emit(out)
}

// answerID returns the vendor's id of an answer, or one that is made where a server that speaks the dialect gives
// none.
func answerID(id string) string {
	if id = provider.ID(id); id == "" {
		return "chatcmpl-" + rand.Text()
	}
	return id
}

// finishReason maps the vendor's stop reasons, unknown ones too, to OpenAI's. calls says whether the client got any
// tool call: an answer that was cut within one is still cut.
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
