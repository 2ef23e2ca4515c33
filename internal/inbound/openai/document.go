package openai

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// A document writes a complete answer. It uses the raw form if there is one.
type document struct {
	answer *chat.Answer // nil until there is an event without a raw form
	asked  chat.Asked
	body   []byte
	render func(dst []byte, asked chat.Asked, a *chat.Answer) []byte
}

// Put implements chat.Sink.
func (d *document) Put(e chat.Event) {
	switch {
	case e.Kind == chat.KindChunk:
		d.body = e.JSON
	case e.Covered:
	case e.Kind == chat.KindEnd && d.answer != nil:
		d.body = d.render(nil, d.asked, d.answer)
	default:
		if d.answer == nil {
			d.answer = &chat.Answer{}
		}
		d.answer.Put(e)
	}
}

// Take returns the answer once it is complete.
func (d *document) Take() []byte { return d.body }

// Len returns how many bytes Take would return.
func (d *document) Len() int { return len(d.body) }

// NewChatDocument returns a writer of a chat completion, and of any other answer that codecs render themselves.
func NewChatDocument(asked chat.Asked) chat.Writer {
	return &document{asked: asked, render: appendChat}
}

// appendChat appends a chat completion.
func appendChat(dst []byte, asked chat.Asked, a *chat.Answer) []byte {
	dst = appendHead(dst, a.ID, "chat.completion", asked)
	for i := range a.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(i), 10)
		dst = appendMessage(append(dst, `,"message":`...), &a.Choices[i])
		dst = append(dst, `,"logprobs":`...)
		dst = appendValue(dst, a.Choices[i].Logprobs)
		dst = openai.AppendString(append(dst, `,"finish_reason":`...), a.Choices[i].FinishReason)
		dst = append(dst, '}')
	}
	dst = a.Usage.AppendJSON(append(dst, `],"usage":`...))
	if a.ServiceTier != "" {
		dst = openai.AppendString(append(dst, `,"service_tier":`...), a.ServiceTier)
	}
	return append(dst, '}')
}

func appendMessage(dst []byte, c *chat.Choice) []byte {
	dst = append(dst, `{"role":"assistant",`...)
	if c.Images != nil {
		dst = append(append(append(dst, `"images":`...), c.Images...), ',')
	}
	dst = append(dst, `"content":`...)
	if c.Text == "" && (len(c.Calls) > 0 || c.Refusal != "" || c.Audio != nil) {
		dst = append(dst, "null"...)
	} else {
		dst = openai.AppendString(dst, c.Text)
	}
	dst = appendNullable(append(dst, `,"refusal":`...), c.Refusal)
	if c.Reasoning != "" {
		dst = openai.AppendString(append(dst, `,"reasoning_content":`...), c.Reasoning)
	}
	for _, m := range []struct {
		name  string
		value jsontext.Value
	}{{`,"thinking_blocks":`, c.ThinkingBlocks}, {`,"annotations":`, c.Annotations}, {`,"audio":`, c.Audio}} {
		if m.value != nil {
			dst = append(append(dst, m.name...), m.value...)
		}
	}
	return append(appendCalls(dst, c.Calls), '}')
}

// appendCalls appends the calls of a message. A call of the deprecated kind is the only one.
func appendCalls(dst []byte, calls []chat.Call) []byte {
	for i := range calls {
		call := &calls[i]
		if call.Function {
			dst = openai.AppendString(append(dst, `,"function_call":{"name":`...), call.Name)
			return append(openai.AppendString(append(dst, `,"arguments":`...), call.Arguments), '}')
		}
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = openai.AppendString(append(dst, `{"id":`...), call.ID)
		dst = openai.AppendString(append(dst, `,"type":"function","function":{"name":`...), call.Name)
		dst = openai.AppendString(append(dst, `,"arguments":`...), call.Arguments)
		dst = append(dst, '}')
		if call.ExtraContent != nil {
			dst = append(append(dst, `,"extra_content":`...), call.ExtraContent...)
		}
		dst = append(dst, '}')
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendNullable appends a string, or null if it is empty.
func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return openai.AppendString(dst, s)
}

func appendValue(dst []byte, v jsontext.Value) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}
