package openaicompat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// extensions are members of messages that the gateway gives with answers, and some clients echo. What one vendor gave
// says nothing to another.
var extensions = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "annotations",
	"refusal", "audio", "images"}

// messages changes what the vendor does not take of the messages. All else in them stays byte for byte.
func (c *Changes) messages(r *openai.ChatRequest) error {
	d := c.dialect
	carried, err := c.carriedBy(r)
	if err != nil {
		return err
	}
	has := func(wanted bool, m openai.Mark) bool { return wanted && c.object.Marked(m) }
	list := c.Get("messages")
	if list.Kind() != '[' || d.MessageMembers == nil && !d.JoinText && len(carried) == 0 &&
		!has(d.SystemRole, openai.MarkDeveloper) &&
		!has(d.Reasoning != "", openai.MarkReasoning) && !has(len(d.Hints) > 0, openai.MarkCacheControl) {
		return nil
	}
	var p patch
	p.reset(list)
	var failed error
	i := 0
	jsonwalk.Array(list, 0, func(start int) int {
		end := jsonwalk.Value(list, start)
		if list[start] == '{' && failed == nil {
			failed = c.message(&p, start, i, carried[i])
		}
		for _, name := range d.Carry {
			if value := carriedValue(carried[i], name); value != "" {
				p.add(edit{from: end - 1, to: end - 1, name: `,"` + name + `":`, value: value})
			}
		}
		i++
		return end
	})
	if len(p.edits) > 0 && failed == nil {
		c.Set("messages", p.appendTo(make([]byte, 0, len(list)+64)))
	}
	return failed
}

// EachMessage gives each message to edit, as it is after the changes so far, and puts in its place what that returns,
// or leaves it if that is nil. An error ends it.
func (c *Changes) EachMessage(edit func(i int, message jsontext.Value) ([]byte, error)) error {
	list := c.Get("messages")
	var out, text []byte
	var failed error
	from, i := 0, 0
	jsonwalk.Array(list, 0, func(start int) int {
		end := jsonwalk.Value(list, start)
		if failed == nil {
			if text, failed = edit(i, list[start:end]); text != nil {
				out, from = append(append(out, list[from:start]...), text...), end
			}
		}
		i++
		return end
	})
	if from > 0 && failed == nil {
		c.Set("messages", append(out, list[from:]...))
	}
	return failed
}

// schema tells the model the schema that its answer must have.
func (c *Changes) schema() {
	format := gjson.ParseBytes(c.Get("response_format"))
	if format.Get("type").Str != "json_schema" {
		return
	}
	list := c.Get("messages")
	instruction := "Answer with nothing but a JSON object that conforms to this JSON Schema: " +
		format.Get("json_schema.schema").Raw
	out := append(openai.AppendString([]byte(`[{"role":"system","content":`), instruction), '}')
	if !isEmpty(list) {
		out = append(out, ',')
	}
	c.Set("messages", append(out, list[1:]...))
	c.Set("response_format", []byte(`{"type":"json_object"}`))
}

// carriedBy returns what the calls of messages carry of the vendor's, by the places of the messages. It counts more
// than what the message itself says in the member: of a stream openai-node keeps, and sends back, only the last piece
// of that.
func (c *Changes) carriedBy(r *openai.ChatRequest) (map[int][]jsontext.Value, error) {
	d := c.dialect
	if len(d.Carry) == 0 || len(r.Sent().Body) == len(r.Body) { // no id carries anything
		return nil, nil
	}
	chat, err := r.Chat()
	if err != nil {
		return nil, err
	}
	carried := map[int][]jsontext.Value{}
	for i := range chat.Messages {
		all := chat.Messages[i].ToolCalls
		for n, call := range all {
			data := call.Carried
			if d.CarryApart && gjson.GetBytes(data, "of").Str != c.target.Config.GetName() {
				data = googles(data, c.target.Config.GetEndpoint())
			}
			if len(data) == 0 {
				continue
			}
			if carried[i] == nil {
				carried[i] = make([]jsontext.Value, len(all))
			}
			carried[i][n] = data
		}
	}
	return carried, nil
}

// googles returns what Google's servers with OpenAI's dialect must get of a call that one of Google's products made in
// its own dialect. Nothing takes the place of what another product made: see private.Unmarked.
func googles(carried jsontext.Value, endpoint string) jsontext.Value {
	of := gjson.GetBytes(carried, "gemini.of").Str
	if of == "" || !private.IsGoogles(endpoint) {
		return nil
	}
	signature, dst := gjson.GetBytes(carried, "gemini.thought_signature").Str, []byte(`{"extra_content":{"google":{"thought_signature":`)
	if of != "gemini" {
		signature, dst = private.Unsigned, append([]byte(`{"foreign":true,`), dst[1:]...)
	}
	return append(openai.AppendString(dst, signature), "}}}"...)
}

// carriedValue returns a member of a message that its calls carry, or nothing.
func carriedValue(carried []jsontext.Value, name string) string {
	for _, data := range carried {
		if value := gjson.GetBytes(data, name).Raw; value != "" {
			return value
		}
	}
	return ""
}

// restore gives calls the extra_content that their ids carry, unless they have one that the vendor takes.
func restore(p *patch, at int, carried []jsontext.Value) {
	n := -1
	jsonwalk.Array(p.data, at, func(start int) int {
		n++
		end := jsonwalk.Value(p.data, start)
		if n >= len(carried) || p.data[start] != '{' {
			return end
		}
		extra := gjson.GetBytes(carried[n], "extra_content").Raw
		spans(p.data, start, func(name []byte, s span) {
			if string(name) == "extra_content" {
				if gjson.GetBytes(carried[n], "foreign").Bool() {
					p.add(edit{from: s.start, to: s.end, value: extra})
				}
				extra = ""
			}
		})
		if extra != "" {
			p.add(edit{from: end - 1, to: end - 1, name: `,"extra_content":`, value: extra})
		}
		return end
	})
}

// message changes the i-th message, which begins at a place. It gets what its calls carry in place of the same
// members.
func (c *Changes) message(p *patch, at, i int, carried []jsontext.Value) error {
	d := c.dialect
	var failed error
	kept, echoed := false, false
	refused := d.MessageMembers != nil && onlyRefuses(p.data, at)
	spans(p.data, at, func(name []byte, s span) {
		value := s.value(p.data)
		s.first = !kept // what stood before it and is taken out took its comma along
		switch n := string(name); {
		case slices.Contains(d.Carry, n) && carriedValue(carried, n) != "":
			p.remove(s)
		case n == "tool_calls" && d.CarryApart && value[0] == '[':
			restore(p, s.start, carried)
			kept = true
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
		case n == "content" && value[0] == '[':
			c.content(p, s)
			kept = true
		case n == "cache_control" && slices.Contains(d.Hints, n):
			p.remove(s)
			c.note(n)
		case d.MessageMembers == nil || slices.Contains(d.MessageMembers, n):
			kept, echoed = true, echoed || n == d.Reasoning
		case saysNothing(value), slices.Contains(extensions, n):
			p.remove(s)
		case n == "function_call":
			p.remove(s)
			failed = cmp.Or(failed, c.drop(fmt.Sprintf("messages[%d].%s", i, n)))
		default:
			p.remove(s)
			c.note(fmt.Sprintf("messages[%d].%s", i, n))
		}
	})
	return failed
}

// content changes content in parts.
func (c *Changes) content(p *patch, s span) {
	parts := s.value(p.data)
	switch {
	case c.dialect.JoinText:
		if text, ok := joinText(parts); ok {
			p.add(edit{from: s.start, to: s.end, value: quote(text)})
		}
	case c.object.Marked(openai.MarkCacheControl) && slices.Contains(c.dialect.Hints, "cache_control"):
		jsonwalk.Array(p.data, s.start, func(start int) int { return c.dropCacheControl(p, start) })
	}
}

// dropCacheControl takes cache_control out of the object at a place, and returns the place behind.
func (c *Changes) dropCacheControl(p *patch, at int) (end int) {
	if p.data[at] == '{' {
		kept := false
		spans(p.data, at, func(name []byte, s span) {
			if string(name) != "cache_control" {
				kept = true
				return
			}
			s.first = !kept
			p.remove(s)
			c.note("cache_control")
		})
	}
	return jsonwalk.Value(p.data, at)
}

// joinText returns the text of content that is an array of nothing but text.
func joinText(content []byte) (string, bool) {
	var texts []string
	ok := true
	gjson.ParseBytes(content).ForEach(func(_, part gjson.Result) bool {
		kind := part.Get("type").Str
		texts = append(texts, part.Get(kind).Str)
		ok = kind == "text" || kind == "refusal"
		return ok
	})
	return strings.Join(texts, "\n"), ok
}

// onlyRefuses reports whether a message has a refusal and no content, so that to a vendor that knows no refusals it is
// the content.
func onlyRefuses(data []byte, at int) bool {
	refusal, content := false, false
	spans(data, at, func(name []byte, s span) {
		switch string(name) {
		case "refusal":
			refusal = isText(s.value(data))
		case "content":
			content = !saysNothing(s.value(data))
		}
	})
	return refusal && !content
}

// saysNothing reports whether a value is absent, null or empty.
func saysNothing(value []byte) bool {
	switch kindOf(value) {
	case 0, 'n':
		return true
	case '"':
		return len(value) == 2
	case '{', '[':
		return isEmpty(value)
	}
	return false
}
