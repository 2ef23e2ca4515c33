package messages

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// appendMessage appends a complete answer as a message.
func appendMessage(dst []byte, asked chat.Asked, a *chat.Answer) []byte {
	var c chat.Choice
	if len(a.Choices) > 0 {
		c = a.Choices[0]
	}
	dst = appendHead(append(dst, `{"id":`...), a.ID, asked.Model)
	dst = append(dst, `,"content":[`...)
	dst = appendContent(dst, &c)
	dst = openai.AppendString(append(dst, `],"stop_reason":`...), stopReason(c.FinishReason, c.Refusal != ""))
	dst = append(dst, `,"stop_sequence":null,"usage":`...)
	return append(appendUsage(dst, a.Usage, a.ServiceTier), '}')
}

func appendContent(dst []byte, c *chat.Choice) []byte {
	begun := len(dst)
	next := func(block string) {
		if len(dst) > begun {
			dst = append(dst, ',')
		}
		dst = append(dst, block...)
	}
	switch {
	case len(c.ThinkingBlocks) > len("[]"):
		next(string(c.ThinkingBlocks[1 : len(c.ThinkingBlocks)-1]))
	case c.Reasoning != "":
		next(`{"type":"thinking","thinking":`)
		dst = append(openai.AppendString(dst, c.Reasoning), `,"signature":""}`...)
	}
	cited := compose.Citations(c.Annotations)
	if c.Text != "" || len(cited) > 0 {
		next(`{"type":"text","text":`)
		dst = appendCitations(append(openai.AppendString(dst, c.Text), `,"citations":`...), cited)
		dst = append(dst, '}')
	}
	if c.Refusal != "" {
		next(`{"type":"text","text":`)
		dst = append(openai.AppendString(dst, c.Refusal), `,"citations":null}`...)
	}
	for _, image := range compose.Images(c.Images) {
		next("")
		dst = appendImage(dst, image)
	}
	for i := range c.Calls {
		call := &c.Calls[i]
		next(`{"type":"tool_use","id":`)
		dst = openai.AppendString(dst, blockID(call.ID))
		dst = openai.AppendString(append(dst, `,"name":`...), call.Name)
		dst = append(appendInput(append(dst, `,"input":`...), call.Arguments), '}')
	}
	return dst
}

// appendInput appends the arguments of a call, which must be an object. Text of the model that is none is kept in one.
func appendInput(dst []byte, arguments string) []byte {
	v := jsontext.Value(arguments)
	switch {
	case arguments == "":
		return append(dst, "{}"...)
	case jsonwalk.Strict(v) && v.Kind() == '{':
		return append(dst, arguments...)
	}
	return append(openai.AppendString(append(dst, `{"arguments":`...), arguments), '}')
}
