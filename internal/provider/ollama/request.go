package ollama

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewrite makes a client's request the server's.
func rewrite(_ *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	switch choice := gjson.ParseBytes(c.Get("tool_choice")); {
	case choice.Str == "none":
		c.Remove("tools")
		c.Remove("tool_choice")
	case choice.Str == "required", choice.IsObject():
		if err := c.Refuse("tool_choice"); err != nil {
			return err
		}
	}
	return rewriteMessages(c)
}

func rewriteMessages(c *openaicompat.Changes) error {
	list := c.Get("messages")
	var out []byte
	var failed error
	from, i := 0, -1
	gjson.ParseBytes(list).ForEach(func(_, m gjson.Result) bool {
		i++
		if m.Get("content").Type == gjson.String && !m.Get("tool_calls").IsArray() {
			return true
		}
		to := m.Index + len(m.Raw)
		var ms []schema.Member
		var changed bool
		if ms, changed, failed = rewriteMessage(schema.Members(list[m.Index:to]), fmt.Sprintf("messages[%d]", i)); changed {
			out = schema.AppendObject(append(out, list[from:m.Index]...), ms)
			from = to
		}
		return failed == nil
	})
	if from > 0 {
		c.Set("messages", append(out, list[from:]...))
	}
	return failed
}

// rewriteMessage rewrites a message, and reports whether anything changed. The server makes a message of its own of each
// part, forgets the call that a result in parts is for, wants content where there are no calls, and reads arguments.
func rewriteMessage(ms []schema.Member, param string) (_ []schema.Member, changed bool, _ error) {
	content, calls := -1, false
	for i := range ms {
		switch ms[i].Name {
		case "content":
			content = i
			if text, ok := joinText(ms[i].Value); ok {
				ms[i].Value, changed = openai.AppendString(nil, text), true
			} else if err := checkParts(ms[i].Value, param+".content"); err != nil {
				return nil, false, err
			}
		case "tool_calls":
			calls = gjson.GetBytes(ms[i].Value, "0").Exists()
			if list, ok := rewriteCalls(ms[i].Value); ok {
				ms[i].Value, changed = list, true
			}
		}
	}
	if calls || content >= 0 && ms[content].Value.Kind() != 'n' {
		return ms, changed, nil
	}
	said := schema.Member{Name: "content", Value: schema.Find(ms, "refusal")}
	if said.Value.Kind() != '"' {
		said.Value = jsontext.Value(`""`)
	}
	if content < 0 {
		return append(ms, said), true, nil
	}
	ms[content] = said
	return ms, true, nil
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

// checkParts refuses what the server cannot read.
func checkParts(content jsontext.Value, param string) error {
	for i, part := range schema.Elements(content) {
		at := fmt.Sprintf("%s[%d]", param, i)
		switch kind := gjson.GetBytes(part, "type").Str; kind {
		case "image_url":
			url := gjson.GetBytes(part, "image_url.url").Str + gjson.GetBytes(part, "image_url").Str
			if !strings.HasPrefix(url, "data:") {
				return openai.BadRequest(at+".image_url.url", "unsupported_value",
					"Invalid '%s.image_url.url': the provider '%s' fetches no images. Send the image itself, as data:image/png;base64,...", at, name)
			}
		case "file":
			return openai.Unsupported(at, name)
		}
	}
	return nil
}

// rewriteCalls makes objects of arguments that are none.
func rewriteCalls(calls jsontext.Value) (jsontext.Value, bool) {
	list, changed := schema.Elements(calls), false
	for i, call := range list {
		arguments := gjson.GetBytes(call, "function.arguments")
		if arguments.Type != gjson.String || isObject(arguments.Str) {
			continue
		}
		object := "{}"
		if strings.TrimSpace(arguments.Str) != "" {
			object = `{"_raw":` + string(openai.AppendString(nil, arguments.Str)) + `}`
		}
		end := arguments.Index + len(arguments.Raw)
		text := openai.AppendString(append([]byte(nil), call[:arguments.Index]...), object)
		list[i], changed = append(text, call[end:]...), true
	}
	return schema.AppendArray(nil, list), changed
}

// isObject reports whether text is a JSON object. It gives up where too much is nested, which gjson does not.
func isObject(text string) bool {
	v := jsontext.Value(text)
	return v.Kind() == '{' && v.IsValid()
}
