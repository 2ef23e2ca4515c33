package deepseek

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewriteMessages gives the vendor messages as it takes them: text is a string, and of reasoning comes what it wants back.
func rewriteMessages(c *openaicompat.Changes, thinks bool) {
	list := c.Get("messages")
	messages := gjson.ParseBytes(list)
	calls := false
	messages.ForEach(func(_, m gjson.Result) bool {
		calls = calls || hasCalls(m)
		return !calls
	})
	var out []byte
	from := 0
	messages.ForEach(func(_, m gjson.Result) bool {
		if !m.Get("content").IsArray() && (m.Get("role").Str != "assistant" || !calls && !m.Get("reasoning_content").Exists()) {
			return true
		}
		to := m.Index + len(m.Raw)
		if ms, changed := rewriteMessage(schema.Members(list[m.Index:to]), thinks, calls); changed {
			out = schema.AppendObject(append(out, list[from:m.Index]...), ms)
			from = to
		}
		return true
	})
	if from > 0 {
		c.Set("messages", append(out, list[from:]...))
	}
}

// instruct puts a system message before all others.
func instruct(c *openaicompat.Changes, instruction string) {
	list := c.Get("messages")
	out := append(openai.AppendString([]byte(`[{"role":"system","content":`), instruction), '}')
	if gjson.GetBytes(list, "0").Exists() {
		out = append(out, ',')
	}
	c.Set("messages", append(out, list[1:]...))
}

func hasCalls(message gjson.Result) bool {
	calls := message.Get("tool_calls")
	return calls.IsArray() && len(calls.Raw) > len("[]")
}

// rewriteMessage rewrites a message, and reports whether anything changed. With calls in the conversation the vendor
// refuses a thinking model's messages that lack reasoning, and is content with empty one. Without calls it ignores the
// reasoning of earlier turns, and its first reasoning model refused it.
func rewriteMessage(ms []schema.Member, thinks, calls bool) (_ []schema.Member, changed bool) {
	reasoning := -1
	for i := range ms {
		switch ms[i].Name {
		case "content":
			if text, ok := joinText(ms[i].Value); ok {
				ms[i].Value, changed = openai.AppendString(nil, text), true
			}
		case "reasoning_content":
			reasoning = i
		}
	}
	switch {
	case string(schema.Find(ms, "role")) != `"assistant"`:
	case !calls && reasoning >= 0:
		return slices.Delete(ms, reasoning, reasoning+1), true
	case calls && thinks && reasoning < 0:
		return append(ms, schema.Member{Name: "reasoning_content", Value: jsontext.Value(`""`)}), true
	case calls && thinks && ms[reasoning].Value.Kind() == 'n':
		ms[reasoning].Value, changed = jsontext.Value(`""`), true
	}
	return ms, changed
}

// joinText returns the text of content that is an array of nothing but text.
func joinText(content jsontext.Value) (string, bool) {
	if content.Kind() != '[' {
		return "", false
	}
	var texts []string
	for _, part := range gjson.ParseBytes(content).Array() {
		kind := part.Get("type").Str
		if kind != "text" && kind != "refusal" {
			return "", false
		}
		texts = append(texts, part.Get(kind).Str)
	}
	return strings.Join(texts, "\n"), true
}
