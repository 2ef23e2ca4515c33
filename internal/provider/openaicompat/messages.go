package openaicompat

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// extensions are members of messages that the gateway gives with answers, and some clients echo. What one vendor gave says
// nothing to another.
var extensions = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "annotations", "refusal", "audio"}

// messages changes what the vendor does not take of the messages. All else in them stays byte for byte.
func (c *Changes) messages(r *openai.ChatRequest) error {
	d, body := c.dialect, c.object.Body
	carried, err := d.carriedBy(r)
	if err != nil {
		return err
	}
	developer := d.SystemRole && bytes.Contains(body, []byte(`"developer"`))
	reasoning := d.Reasoning != "" && bytes.Contains(body, []byte(`"reasoning_content"`))
	list := c.object.Get("messages")
	if !developer && !reasoning && d.MessageMembers == nil && carried == nil || list.Kind() != '[' {
		return nil
	}
	var p patch
	p.reset(list)
	var failed error
	i := 0
	walkArray(list, 0, func(start, end int) {
		if list[start] == '{' && failed == nil {
			failed = c.message(&p, start, i)
		}
		if value := carried[i]; value != "" {
			p.add(edit{from: end - 1, to: end - 1, name: `,"` + d.Carry + `":`, value: value})
		}
		i++
	})
	if len(p.edits) > 0 && failed == nil {
		c.Set("messages", p.appendTo(make([]byte, 0, len(list)+64)))
	}
	return failed
}

// carriedBy returns what the calls of messages carry of the vendor's, by the places of the messages. A message that has the
// member itself is not among them.
func (d *Dialect) carriedBy(r *openai.ChatRequest) (map[int]string, error) {
	if d.Carry == "" || !bytes.Contains(r.Body, []byte(`"tool_calls"`)) {
		return nil, nil
	}
	chat, err := r.Chat()
	if err != nil {
		return nil, err
	}
	var carried map[int]string
	for i := range chat.Messages {
		for _, call := range chat.Messages[i].ToolCalls {
			value := gjson.GetBytes(call.Carried, d.Carry).Raw
			if value == "" || gjson.GetBytes(r.Get("messages"), strconv.Itoa(i)+"."+d.Carry).Exists() {
				continue
			}
			if carried == nil {
				carried = map[int]string{}
			}
			carried[i] = value
			break
		}
	}
	return carried, nil
}

// message changes the i-th message, which begins at a place.
func (c *Changes) message(p *patch, at, i int) error {
	d := c.dialect
	var failed error
	kept, echoed := false, false
	refused := d.MessageMembers != nil && onlyRefuses(p.data, at)
	spans(p.data, at, func(name []byte, s span) {
		value := s.value(p.data)
		s.first = !kept // what stood before it and is taken out took its comma along
		switch n := string(name); {
		case n == "role" && d.SystemRole && string(value) == `"developer"`:
			p.add(edit{from: s.start, to: s.end, value: `"system"`})
			kept = true
		case n == "reasoning_content" && d.Reasoning != "" && value[0] == '"' && !echoed:
			p.add(edit{from: s.name, to: s.name + len(name) + len(`""`), name: `"`, value: d.Reasoning + `"`})
			kept, echoed = true, true
		case refused && n == "refusal":
			p.add(edit{from: s.name, to: s.name + len(name) + len(`""`), value: `"content"`})
			kept = true
		case n == d.Reasoning && echoed, refused && n == "content":
			p.remove(s)
		case d.MessageMembers == nil || slices.Contains(d.MessageMembers, n):
			kept, echoed = true, echoed || n == d.Reasoning
		case saysNothing(value), slices.Contains(extensions, n):
			p.remove(s)
		default:
			p.remove(s)
			failed = cmp.Or(failed, c.drop(fmt.Sprintf("messages[%d].%s", i, n)))
		}
	})
	return failed
}

// onlyRefuses reports whether a message has a refusal and no content, so that to a vendor that knows no refusals it is the
// content.
func onlyRefuses(data []byte, at int) bool {
	refusal, content := false, false
	walk(data, at, func(name, nameEnd, start, end int) {
		switch string(data[name:nameEnd]) {
		case `"refusal"`:
			refusal = isText(data[start:end])
		case `"content"`:
			content = !saysNothing(data[start:end])
		}
	})
	return refusal && !content
}

// saysNothing reports whether a value is null or empty.
func saysNothing(value []byte) bool {
	switch value[0] {
	case 'n':
		return true
	case '"':
		return len(value) == 2
	case '{', '[':
		return isEmpty(value)
	}
	return false
}
