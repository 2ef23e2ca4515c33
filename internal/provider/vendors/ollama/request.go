package ollama

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewrite makes a client's request the server's.
func rewrite(_ *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	return c.EachMessage(func(i int, message jsontext.Value) ([]byte, error) {
		if gjson.GetBytes(message, "content").Type == gjson.String && !gjson.GetBytes(message, "tool_calls").IsArray() {
			return nil, nil
		}
		return rewriteMessage(message, fmt.Sprintf("messages[%d]", i))
	})
}

// rewriteMessage rewrites a message, or returns nil. The server wants content if there are no calls, and reads
// arguments.
func rewriteMessage(message jsontext.Value, param string) ([]byte, error) {
	ms := schema.Members(message)
	content, calls, changed := -1, false, false
	for i := range ms {
		switch ms[i].Name {
		case "content":
			content = i
			if err := checkParts(ms[i].Value, param+".content"); err != nil {
				return nil, err
			}
		case "tool_calls":
			calls = gjson.GetBytes(ms[i].Value, "0").Exists()
			if list, ok := rewriteCalls(ms[i].Value); ok {
				ms[i].Value, changed = list, true
			}
		}
	}
	if !calls && (content < 0 || ms[content].Value.Kind() == 'n') {
		said := schema.Member{Name: "content", Value: schema.Find(ms, "refusal")}
		if said.Value.Kind() != '"' {
			said.Value = jsontext.Value(`""`)
		}
		if changed = true; content < 0 {
			ms = append(ms, said)
		} else {
			ms[content] = said
		}
	}
	if !changed {
		return nil, nil
	}
	return schema.AppendObject(nil, ms), nil
}

// checkParts refuses what the server cannot read.
func checkParts(content jsontext.Value, param string) error {
	for i, part := range schema.Elements(content) {
		at := fmt.Sprintf("%s[%d]", param, i)
		switch kind := gjson.GetBytes(part, "type").Str; kind {
		case "image_url":
			url := gjson.GetBytes(part, "image_url.url").Str + gjson.GetBytes(part, "image_url").Str
			if !strings.HasPrefix(url, "data:") {
				return openai.CodeUnsupportedValue.On(at+".image_url.url",
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
	return v.Kind() == '{' && jsonwalk.Strict(v)
}
