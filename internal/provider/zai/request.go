package zai

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewrite makes a client's request the vendor's.
func rewrite(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	if err := think(r, t, c); err != nil {
		return err
	}
	switch choice := gjson.ParseBytes(c.Get("tool_choice")); {
	case choice.Str == "none":
		c.Remove("tools")
		c.Remove("tool_choice")
	case choice.Str == "required", choice.IsObject():
		if err := c.Refuse("tool_choice"); err != nil {
			return err
		}
	}
	if stop := c.Get("stop"); stop.Kind() == '"' {
		c.Set("stop", slices.Concat([]byte("["), stop, []byte("]")))
	}
	user := c.Get("user")
	if n := utf8.RuneCountInString(gjson.ParseBytes(user).Str); n >= 6 && n <= 128 && c.Get("user_id") == nil { // others are refused
		c.Set("user_id", user)
		c.Remove("user")
	}
	rewriteMessages(c)
	instruct(c)
	return nil
}

// nearest are the efforts that models without the others have in their place.
var nearest = map[string]string{"minimal": "low", "medium": "high", "xhigh": "max"}

// think turns reasoning_effort into the switch that most models have and the effort that a few have besides. The client's
// own switch stays.
func think(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	effort := gjson.ParseBytes(r.Get("reasoning_effort")).Str
	kind, efforts := t.Can().GetThinking(), t.Can().GetEfforts()
	set := "enabled"
	switch {
	case effort == "":
		return nil
	case effort == "none" && kind == configv1.Thinking_NEVER:
		c.Remove("reasoning_effort")
		return nil
	case kind == configv1.Thinking_NEVER, effort == "none" && kind == configv1.Thinking_ALWAYS:
		return c.Refuse("reasoning_effort")
	case effort == "none":
		set = "disabled"
		c.Remove("reasoning_effort")
	case kind == configv1.Thinking_THINKING_UNSPECIFIED || slices.Contains(efforts, effort):
	case slices.Contains(efforts, nearest[effort]):
		c.Set("reasoning_effort", openai.AppendString(nil, nearest[effort]))
	default:
		c.Remove("reasoning_effort")
	}
	if c.Get("thinking") == nil {
		c.Set("thinking", []byte(`{"type":"`+set+`"}`))
	}
	return nil
}

// rewriteMessages makes strings of the assistant's texts and of tool results, of which the model sees nothing otherwise.
func rewriteMessages(c *openaicompat.Changes) {
	list := c.Get("messages")
	var out []byte
	from := 0
	gjson.ParseBytes(list).ForEach(func(_, m gjson.Result) bool {
		if role := m.Get("role").Str; role != "tool" && role != "assistant" || !m.Get("content").IsArray() {
			return true
		}
		to := m.Index + len(m.Raw)
		if ms, changed := rewriteMessage(schema.Members(list[m.Index:to])); changed {
			out = schema.AppendObject(append(out, list[from:m.Index]...), ms)
			from = to
		}
		return true
	})
	if from > 0 {
		c.Set("messages", append(out, list[from:]...))
	}
}

func rewriteMessage(ms []schema.Member) (_ []schema.Member, changed bool) {
	for i := range ms {
		if text, ok := joinText(ms[i]); ok {
			ms[i].Value, changed = openai.AppendString(nil, text), true
		}
	}
	return ms, changed
}

// instruct tells the model the schema that its answer must have, for the vendor knows no more than JSON.
func instruct(c *openaicompat.Changes) {
	format := gjson.ParseBytes(c.Get("response_format"))
	if format.Get("type").Str != "json_schema" {
		return
	}
	instruction := "Answer with nothing but a JSON object that conforms to this JSON Schema: " + format.Get("json_schema.schema").Raw
	list := c.Get("messages")
	out := append(openai.AppendString([]byte(`[{"role":"system","content":`), instruction), '}')
	if gjson.GetBytes(list, "0").Exists() {
		out = append(out, ',')
	}
	c.Set("messages", append(out, list[1:]...))
	c.Set("response_format", []byte(`{"type":"json_object"}`))
}

// joinText returns the text of content that is an array of nothing but text.
func joinText(m schema.Member) (string, bool) {
	if m.Name != "content" || m.Value.Kind() != '[' {
		return "", false
	}
	var texts []string
	for _, part := range gjson.ParseBytes(m.Value).Array() {
		kind := part.Get("type").Str
		if kind != "text" && kind != "refusal" {
			return "", false
		}
		texts = append(texts, part.Get(kind).Str)
	}
	return strings.Join(texts, "\n"), true
}
