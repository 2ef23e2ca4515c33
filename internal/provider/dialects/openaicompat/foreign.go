package openaicompat

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// foreign reports whether a member of an assistant's message matters only to other vendors, whose answers had it.
// OpenAI refuses unknown members of messages, and so do most others. Named means that the client gets its name when it
// is left out. Members that the gateway itself adds to answers are left out silently.
func (d *Dialect) foreign(name string) (is, named bool) {
	switch name {
	case "thinking_blocks": // LiteLLM's
		return d.MessageMembers == nil, true // else it is no member that is taken
	case "images":
		return true, false
	case "reasoning_details": // OpenRouter's
		return !slices.Contains(d.Carry, name), false
	case "reasoning_content", "reasoning":
		return d.AsReceived, false
	}
	return false, false
}

// withoutForeign removes the members that only other vendors know from the assistant's messages. They include
// Claude's thinking, as parts of the types thinking and redacted_thinking, and members of calls that Google's
// models need back. Unknown servers get all.
func (c *Changes) withoutForeign() error {
	marks := openai.MarkThoughts | openai.MarkExtensions
	if c.dialect.AsReceived {
		marks |= openai.MarkReasoning
	}
	if c.dialect.Thoughts || !c.object.Marked(marks) {
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
			n := string(name)
			foreign, named := c.dialect.foreign(n)
			switch {
			case foreign:
				p.remove(s)
				if named && !saysNothing(value) {
					c.note(fmt.Sprintf("messages[%d].%s", i, n))
				}
				return
			case n == "content" && kindOf(value) == '[':
				if parts := c.spoken(value, i); parts != nil {
					p.add(edit{from: s.start, to: s.end, value: string(parts)})
				}
			case n == "tool_calls" && kindOf(value) == '[':
				jsonwalk.Array(message, s.start, func(start int) int { return withoutExtra(&p, start) })
			}
			kept = true
		})
		if len(p.edits) == 0 {
			return nil, nil
		}
		return p.appendTo(make([]byte, 0, len(message))), nil
	})
}

// withoutExtra takes extra_content out of the call that begins at a place, and returns the place behind.
func withoutExtra(p *patch, at int) int {
	if p.data[at] == '{' {
		kept := false
		spans(p.data, at, func(name []byte, s span) {
			if s.first = !kept; string(name) == "extra_content" {
				p.remove(s)
				return
			}
			kept = true
		})
	}
	return jsonwalk.Value(p.data, at)
}

// spoken returns the content of the i-th message without thoughts, or nil if there are none.
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
