package converse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// An answer reads the answer to one request. It is immutable.
type answer struct {
	request    [sha256.Size]byte // of the client's body
	names      *turns.Names
	answerTool string // the tool whose input is the content, or empty
}

// id makes the id of an answer, which the vendor names in a header alone. What it is made of tells answers apart and
// is the same wherever a body is cut.
func (a *answer) id(created int64, beginning []byte) string {
	h := sha256.New()
	h.Write(a.request[:])
	h.Write(strconv.AppendInt(nil, created, 10))
	h.Write(beginning)
	return "chatcmpl-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// A completion is a complete answer of the vendor.
type completion struct {
	Output struct {
		Message *struct {
			Content []contentBlock `json:"content"`
		} `json:"message"`
	} `json:"output"`
	StopReason  string         `json:"stopReason"`
	Usage       reported.Usage `json:"usage"`
	ServiceTier serviceTier    `json:"serviceTier"`
}

type serviceTier struct {
	Type string `json:"type"`
}

// A contentBlock is one block of an answer. Blocks of other kinds than these, such as the results of tools that the
// vendor runs itself, are not the client's.
type contentBlock struct {
	Text             string   `json:"text"`
	ToolUse          *toolUse `json:"toolUse"`
	ReasoningContent *struct {
		ReasoningText struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		RedactedContent string `json:"redactedContent"`
	} `json:"reasoningContent"`
	CitationsContent *struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Citations []citation `json:"citations"`
	} `json:"citationsContent"`
}

// A toolUse is a call of a tool, or its beginning in a stream.
type toolUse struct {
	ToolUseID string         `json:"toolUseId"`
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	Input     jsontext.Value `json:"input"`
}

// isClients reports whether the call is the client's to answer, and not one of a tool that the vendor runs itself.
func (t *toolUse) isClients() bool { return t.Type == "" || t.Type == "tool_use" }

// Decode turns a complete answer into a chat completion.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var c completion
	if err := json.Unmarshal(body, &c, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	if c.Output.Message == nil {
		if x := readException(body); x != (exception{}) {
			return x.error(0, nil)
		}
		return fmt.Errorf("%w: it has no message", provider.ErrNotAnAnswer)
	}
	g := gathered{answer: a, thoughts: thoughts{carrier: asked.Carrier}}
	for i := range c.Output.Message.Content {
		g.add(&c.Output.Message.Content[i])
	}
	finish, err := finishReason(c.StopReason, len(g.calls) > 0)
	if err != nil {
		return err
	}
	answer := chat.Answer{ID: a.id(asked.Created, body), Usage: c.Usage.OpenAI(),
		ServiceTier: clientTier(c.ServiceTier.Type)}
	answer.Choices = []chat.Choice{{
		Text: g.content(), Reasoning: g.reasoning.String(), ThinkingBlocks: thinkingBlocks(g.thoughts.all),
		Annotations: array(g.annotations),
		Calls:       g.calls, FinishReason: finish,
	}}
	answer.Emit(out)
	return nil
}

// Stream returns a decoder for one streamed answer.
func (a *answer) Stream(asked chat.Asked) provider.Stream {
	return &stream{answer: a, created: asked.Created, thoughts: thoughts{carrier: asked.Carrier}}
}

// gathered is the client's answer, joined from its blocks.
type gathered struct {
	answer          *answer
	text, reasoning strings.Builder
	length          int // of text, in characters
	calls           []chat.Call
	thoughts        thoughts
	annotations     []jsontext.Value
	structured      jsontext.Value // the input of the answer tool
}

func (g *gathered) say(text string) {
	g.text.WriteString(text)
	g.length += utf8.RuneCountInString(text)
}

func (g *gathered) add(b *contentBlock) {
	g.say(b.Text)
	if r := b.ReasoningContent; r != nil {
		g.reasoning.WriteString(r.ReasoningText.Text)
		g.thoughts.add(r.ReasoningText.Text, r.ReasoningText.Signature, appendRedacted(nil, r.RedactedContent))
	}
	if c := b.CitationsContent; c != nil {
		start := g.length
		for i := range c.Content {
			g.say(c.Content[i].Text)
		}
		g.annotations = annotate(g.annotations, c.Citations, start, g.length)
	}
	t := b.ToolUse
	if t == nil || !t.isClients() {
		return
	}
	input := messages.CompactObject(t.Input)
	switch {
	case g.answer.answerTool == "" || t.Name != g.answer.answerTool:
		g.calls = append(g.calls, chat.Call{ID: g.thoughts.callID(t.ToolUseID), Name: g.answer.names.Client(t.Name),
			Arguments: string(input)})
	case g.structured == nil:
		g.structured = input
	}
}

// content returns what the client reads.
func (g *gathered) content() string {
	if g.structured != nil {
		return string(g.structured) // what the model says beside it would spoil the JSON
	}
	return g.text.String()
}

// thinkingBlocks returns the extension of that name, or nil if there are no thoughts.
func thinkingBlocks(ts []messages.Thought) jsontext.Value {
	if len(ts) == 0 {
		return nil
	}
	return messages.AppendThoughts(nil, ts)
}

// array returns a JSON array of the values, or nil if there are none.
func array(values []jsontext.Value) jsontext.Value {
	if len(values) == 0 {
		return nil
	}
	return schema.AppendArray(nil, values)
}

// finishReason maps the vendor's stop reasons, unknown ones too, to OpenAI's. calls says whether the client got any
// tool call. What the vendor itself could not read is an error.
func finishReason(stop string, calls bool) (string, error) {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return "length", nil
	case "guardrail_intervened", "content_filtered", "refusal":
		return "content_filter", nil
	case "malformed_model_output", "malformed_tool_use":
		return "", &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer, Code: openai.Code(stop),
			Message: "The model gave an answer that its provider could not read. Try again."}
	}
	if calls {
		return "tool_calls", nil
	}
	return "stop", nil
}

// clientTier returns a service tier as OpenAI's clients know it.
func clientTier(tier string) string {
	switch tier {
	case "default", "flex", "priority":
		return tier
	}
	return ""
}
