package messages

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// withoutPrivate returns a client's request without what concerns only Anthropic, for a vendor that is another one:
// lines of the system's prompt, and who may share a cache.
func withoutPrivate(body []byte, vendor string) []byte {
	scoped := !private.Takes(vendor, private.CacheControl, "scope") && bytes.Contains(body, []byte(`"scope"`)) &&
		bytes.Contains(body, []byte(`"cache_control"`))
	if vendor == private.Anthropic || !scoped && !private.Mentioned(body) {
		return body
	}
	ms := schema.Members(body)
	for i := range ms {
		m := &ms[i]
		switch m.Name {
		case "system":
			m.Value = promptFor(m.Value, vendor)
		case "tools":
			m.Value = unscoped(m.Value)
		case "messages":
			var all []nativeMessage
			if json.Unmarshal(m.Value, &all) != nil {
				return body
			}
			for n := range all {
				if all[n].Role == "system" {
					if all[n].Content = promptFor(all[n].Content, vendor); all[n].Content == nil {
						all[n].Content = jsontext.Value(`"."`) // a message must not be empty
					}
				} else {
					all[n].Content = unscoped(all[n].Content)
				}
			}
			m.Value, _ = json.Marshal(all, json.Deterministic(true)) // values that were read
		}
	}
	return schema.AppendObject(nil, ms)
}

// promptFor returns a prompt of the system, a string or a list of blocks, for a vendor. It returns nil if nothing is
// left of it.
func promptFor(prompt jsontext.Value, vendor string) jsontext.Value {
	if prompt.Kind() == '"' {
		text := openai.Unquote(prompt)
		switch rest := private.Prompt(text, vendor); rest {
		case text:
			return prompt
		case "":
			return nil
		default:
			return openai.AppendString(nil, rest)
		}
	}
	var kept []jsontext.Value
	for _, b := range schema.Elements(unscoped(prompt)) {
		text := gjson.GetBytes(b, "text")
		rest := private.Prompt(text.Str, vendor)
		switch {
		case rest == text.Str:
			kept = append(kept, b)
		case rest != "":
			kept = append(kept, bytes.Replace(b, []byte(text.Raw), openai.AppendString(nil, rest), 1))
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return schema.AppendArray(nil, kept)
}

// unscoped returns a list of blocks or tools without the scopes of their caches, also within results of tools. What is
// no list stays.
func unscoped(list jsontext.Value) jsontext.Value {
	if list.Kind() != '[' || !bytes.Contains(list, []byte(`"cache_control"`)) {
		return list
	}
	elements := schema.Elements(list)
	for i := range elements {
		ms := schema.Members(elements[i])
		for n := range ms {
			switch ms[n].Name {
			case "content":
				ms[n].Value = unscoped(ms[n].Value)
			case "cache_control":
				if inner := schema.Members(ms[n].Value); schema.Find(inner, "scope") != nil {
					ms[n].Value = schema.AppendObject(nil, schema.Without(inner, "scope"))
				}
			}
		}
		if len(ms) > 0 {
			elements[i] = schema.AppendObject(nil, ms)
		}
	}
	return schema.AppendArray(nil, elements)
}
