package openaicompat

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// withoutThoughts takes Claude's thinking out of what the assistant said, as clients of other gateways send it back:
// parts of the types thinking and redacted_thinking, and LiteLLM's thinking_blocks. OpenAI refuses what it does not
// know in messages, and so do most others.
func (c *Changes) withoutThoughts() error {
	if c.dialect.Thoughts || !c.object.Marked(openai.MarkThoughts) {
		return nil
	}
	return c.EachMessage(func(i int, message jsontext.Value) ([]byte, error) {
		if message.Kind() != '{' || gjson.GetBytes(message, "role").Str != "assistant" {
			return nil, nil
		}
		var p patch
		p.reset(message)
		kept := false
		spans(message, 0, func(name []byte, s span) {
			s.first = !kept
			value := s.value(message)
			switch n := string(name); {
			case n == "thinking_blocks" && c.dialect.MessageMembers == nil: // else it is no member that is taken
				p.remove(s)
				if !saysNothing(value) {
					c.note(fmt.Sprintf("messages[%d].%s", i, n))
				}
				return
			case n == "content" && kindOf(value) == '[':
				if parts := c.spoken(value, i); parts != nil {
					p.add(edit{from: s.start, to: s.end, value: string(parts)})
				}
			}
			kept = true
		})
		if len(p.edits) == 0 {
			return nil, nil
		}
		return p.appendTo(make([]byte, 0, len(message))), nil
	})
}

// spoken returns the content of the i-th message without thoughts, or nil where there are none.
func (c *Changes) spoken(content []byte, i int) []byte {
	out, n, thoughts := []byte{'['}, 0, 0
	eachElement(content, func(part []byte) {
		if isThought(gjson.ParseBytes(part)) {
			c.note(fmt.Sprintf("messages[%d].content[%d]", i, n))
			thoughts++
		} else {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, part...)
		}
		n++
	})
	switch thoughts {
	case 0:
		return nil
	case n: // an empty list is refused
		return []byte(`""`)
	}
	return append(out, ']')
}

// isThought reports whether a part is Claude's. Those of the type thinking that have a list are Mistral's.
func isThought(part gjson.Result) bool {
	switch part.Get("type").Str {
	case "redacted_thinking":
		return true
	case "thinking":
		return part.Get("thinking").Type == gjson.String
	}
	return false
}
