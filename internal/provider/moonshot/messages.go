package moonshot

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewriteMessages gives the vendor messages as all of its models take them: text is a string, and the tool calls of a model
// that thinks come with reasoning.
func rewriteMessages(c *openaicompat.Changes, thinks bool) {
	list := c.Get("messages")
	var out []byte
	from := 0
	gjson.ParseBytes(list).ForEach(func(_, m gjson.Result) bool {
		if !m.Get("content").IsArray() && (!thinks || !hasCalls(m)) {
			return true
		}
		to := m.Index + len(m.Raw)
		if ms, changed := rewriteMessage(schema.Members(list[m.Index:to]), thinks); changed {
			out = schema.AppendObject(append(out, list[from:m.Index]...), ms)
			from = to
		}
		return true
	})
	if from > 0 {
		c.Set("messages", append(out, list[from:]...))
	}
}

func hasCalls(message gjson.Result) bool {
	calls := message.Get("tool_calls")
	return calls.IsArray() && len(calls.Raw) > len("[]")
}

// rewriteMessage rewrites a message, and reports whether anything changed.
func rewriteMessage(ms []schema.Member, thinks bool) (_ []schema.Member, changed bool) {
	calls, reasoning := false, -1
	for i := range ms {
		switch ms[i].Name {
		case "content":
			if text, ok := joinText(ms[i].Value); ok {
				ms[i].Value, changed = openai.AppendString(nil, text), true
			}
		case "tool_calls":
			calls = gjson.GetBytes(ms[i].Value, "0").Exists()
		case "reasoning_content":
			reasoning = i
		}
	}
	if !thinks || !calls {
		return ms, changed
	}
	blank := schema.Member{Name: "reasoning_content", Value: jsontext.Value(`" "`)} // the least that is accepted
	switch {
	case reasoning < 0:
		return append(ms, blank), true
	case gjson.ParseBytes(ms[reasoning].Value).Str == "":
		ms[reasoning], changed = blank, true
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
