package mistral

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// answer implements provider.Answer.
type answer struct {
	// own are the names of the client's functions, where the vendor's own tools may be called besides. Calls of those are
	// not the client's. Nil: every call is.
	own []string
	// names are the client's names of tools.
	names *turns.Names
}

// isOwn reports whether a call is the client's to make.
func (a *answer) isOwn(name string) bool { return a.own == nil || slices.Contains(a.own, name) }

// A response is a whole answer, or a chunk of one.
type response struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Choices choices        `json:"choices"`
	Usage   reported.Usage `json:"usage"`
	Error   jsontext.Value `json:"error"`
	Message jsontext.Value `json:"message"` // of an error
	Detail  jsontext.Value `json:"detail"`  // likewise
}

// choices are no more than can be asked for.
type choices []choice

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *choices) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '[' {
		return json.UnmarshalDecode(d, (*[]choice)(c))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if *c = (*c)[:0]; *c == nil {
		*c = choices{}
	}
	for d.PeekKind() != ']' {
		if len(*c) == maxChoices {
			return fmt.Errorf("there are more than %d choices", maxChoices)
		}
		*c = append(*c, choice{})
		if err := json.UnmarshalDecode(d, &(*c)[len(*c)-1]); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// isError reports whether the vendor says that something failed, in any of its ways.
func (r *response) isError() bool {
	return strings.EqualFold(r.Object, "error") || turns.Asked(r.Error) || len(r.Choices) == 0 &&
		(turns.Asked(r.Message) || turns.Asked(r.Detail))
}

type choice struct {
	Index        int       `json:"index"`
	Message      *message  `json:"message"`
	Messages     []message `json:"messages"` // in its place, where the vendor ran tools
	Delta        message   `json:"delta"`
	FinishReason string    `json:"finish_reason"`
}

type message struct {
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  []toolCall     `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
}

// isResult reports whether the message is the result of a tool that the vendor runs.
func (m *message) isResult() bool { return m.Role == "tool" || m.ToolCallID != "" }

type toolCall struct {
	ID       string `json:"id"`
	Index    int    `json:"index"`
	Function struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	} `json:"function"`
}

// id returns the call's id, or nothing: the vendor's own clients say null for that, in letters.
func (c *toolCall) id() string {
	if c.ID == "null" {
		return ""
	}
	return c.ID
}

// arguments returns what the model called the tool with, which may be a string or an object.
func (c *toolCall) arguments() string {
	switch v := c.Function.Arguments; v.Kind() {
	case '"':
		return unquote(v)
	case '{':
		v = v.Clone()
		_ = v.Compact(provider.Lenient, jsontext.PreserveRawStrings(true)) // it was read as JSON before
		return string(v)
	}
	return ""
}

func unquote(v jsontext.Value) string {
	s, _ := jsontext.AppendUnquote(nil, v) // it was read as JSON before
	return string(s)
}

// A chunk is one of a list that is content, or that is thinking.
type chunk struct {
	Type     string         `json:"type"`
	Text     jsontext.Value `json:"text"`
	Thinking jsontext.Value `json:"thinking"`
}

// readContent calls text and thinking for what content says, in order. References are to nothing that the client has.
func readContent(v jsontext.Value, text, thinking func(string)) error {
	return readNested(v, maxNested, text, thinking)
}

// maxNested is how deep chunks may stand within chunks: each level is read again within the next.
const maxNested = 8

func readNested(v jsontext.Value, levels int, text, thinking func(string)) error {
	if levels == 0 {
		return fmt.Errorf("%w: content: it is nested too deep", provider.ErrNotAnAnswer)
	}
	switch v.Kind() {
	case '"':
		if s := unquote(v); s != "" {
			text(s)
		}
	case '[':
		var chunks []chunk
		if err := json.Unmarshal(v, &chunks, provider.Lenient); err != nil {
			return fmt.Errorf("%w: content: %w", provider.ErrNotAnAnswer, err)
		}
		for _, c := range chunks {
			var err error
			switch c.Type {
			case "text":
				err = readNested(c.Text, levels-1, text, thinking)
			case "thinking":
				err = readNested(c.Thinking, levels-1, thinking, thinking)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	var r response
	if err := json.Unmarshal(body, &r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	switch {
	case r.isError():
		return inBand(body)
	case r.Choices == nil && !bytes.Contains(body, []byte(`"choices"`)):
		return fmt.Errorf("%w: it has no choices", provider.ErrNotAnAnswer)
	}
	r.ID = provider.ID(r.ID)
	answer := chat.Answer{ID: cmp.Or(r.ID, newID()), Usage: r.Usage.OpenAI()}
	for i := range r.Choices {
		c, err := a.choice(&r.Choices[i], r.ID)
		if err != nil {
			return err
		}
		answer.Choices = append(answer.Choices, c)
	}
	answer.Emit(out)
	return nil
}

func (a *answer) choice(c *choice, id string) (chat.Choice, error) {
	if c.FinishReason == "error" {
		return chat.Choice{}, errFailed()
	}
	messages := c.Messages
	if c.Message != nil {
		messages = append(messages, *c.Message)
	}
	var text, reasoning strings.Builder
	var out chat.Choice
	var answered map[string]bool // ids of calls that the vendor has answered itself
	for i := range messages {
		if id := messages[i].ToolCallID; id != "" {
			if answered == nil {
				answered = make(map[string]bool)
			}
			answered[id] = true
		}
	}
	for i := range messages {
		m := &messages[i]
		if m.isResult() {
			continue
		}
		err := readContent(m.Content, func(s string) { text.WriteString(s) }, func(s string) { reasoning.WriteString(s) })
		if err != nil {
			return chat.Choice{}, err
		}
		for j := range m.ToolCalls {
			call := &m.ToolCalls[j]
			if !a.isOwn(call.Function.Name) || answered[call.ID] {
				continue
			}
			arguments := call.arguments()
			if s := strings.TrimSpace(arguments); s == "" || s == "null" {
				arguments = "{}"
			}
			out.Calls = append(out.Calls, chat.Call{ID: cmp.Or(call.id(), madeID(id, c.Index, len(out.Calls))),
				Name: a.names.Client(call.Function.Name), Arguments: arguments})
		}
	}
	out.Text, out.Reasoning = text.String(), reasoning.String()
	out.FinishReason = finishReason(c.FinishReason, len(out.Calls) > 0)
	return out, nil
}

// Stream implements provider.Answer.
func (a *answer) Stream(chat.Asked) provider.Stream { return &stream{answer: a} }

// finishReason returns OpenAI's finish reason for the vendor's.
func finishReason(reason string, calls bool) string {
	switch {
	case reason == "length", reason == "model_length":
		return "length"
	case reason == "content_filter":
		return reason
	case calls:
		return "tool_calls"
	}
	return "stop"
}

// newID is for an answer that has no id.
func newID() string { return "chatcmpl-" + rand.Text() }

// madeID is the id of a tool call that has none.
func madeID(answer string, choice, index int) string {
	return forms.Of(name).Call.Fit(answer + " " + strconv.Itoa(choice) + " " + strconv.Itoa(index))
}
