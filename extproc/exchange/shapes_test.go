package exchange_test

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// A shape is requests of one kind, of about any size.
type shape struct {
	name, path, contentType string
	body                    func(size int) string
	schema                  bool // it is about a schema
}

// list repeats what item returns, with commas, up to about size bytes.
func list(size int, item func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String()
}

func always(s string) func(int) string { return func(int) string { return s } }

// numbered is a format with one number.
func numbered(format string) func(int) string {
	return func(i int) string { return strings.ReplaceAll(format, "%d", fmt.Sprint(i)) }
}

// nested is what stands within n of the opening and closing parts.
func nested(size int, open, inner, closing string) string {
	n := max(1, size/(len(open)+len(closing)))
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

// deep is nested, no deeper than is allowed, as often as it takes.
func deep(size int, open, inner, closing string) string {
	const levels = 50
	one := nested(levels*(len(open)+len(closing)), open, inner, closing)
	return list(size, func(int) string { return one })
}

const user = `{"role":"user","content":"x"}`

// chatShape is a chat completion with a member of its own.
func chatShape(name string, members func(size int) string) shape {
	return shape{name: name, path: "/v1/chat/completions", contentType: "application/json", body: func(size int) string {
		return `{"model":"any","messages":[` + user + `],` + members(size) + `}`
	}}
}

// messagesShape is a chat completion with messages of its own.
func messagesShape(name string, messages func(size int) string) shape {
	return shape{name: name, path: "/v1/chat/completions", contentType: "application/json", body: func(size int) string {
		return `{"model":"any","messages":[` + messages(size) + `]}`
	}}
}

// schemaShapes are a schema of a structured answer and of a strict tool.
func schemaShapes(name string, schema func(size int) string) []shape {
	return []shape{
		chatShape(name+" of an answer", func(size int) string {
			return `"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":` + schema(size) +
				`}}`
		}),
		chatShape(name+" of a tool", func(size int) string {
			return `"tools":[{"type":"function","function":{"name":"t","strict":true,"parameters":` + schema(size) + `}}]`
		}),
	}
}

func schemas() []shape {
	object := func(members string) string { return `{"type":"object",` + members + `}` }
	properties := func(size int, item string) string { return `"properties":{` + list(size, numbered(item)) + `}` }
	all := map[string]func(int) string{
		"a chain of references": func(size int) string {
			return object(`"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + list(size, func(i int) string {
				return fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"}}}`, i, i+1)
			}) + `}`)
		},
		"a chain of references alone": func(size int) string {
			return object(`"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + list(size, func(i int) string {
				return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
			}) + `}`)
		},
		"references that fan out": func(size int) string {
			return object(`"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + list(size, func(i int) string {
				return fmt.Sprintf(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`,
					i, i+1, i+1)
			}) + `}`)
		},
		"references to one": func(size int) string {
			return object(properties(size/2, `"p%d":{"$ref":"#/$defs/d"}`) + `,"$defs":{"d":` +
				object(properties(size/2, `"p%d":{"type":"string"}`)) + `}`)
		},
		"references to the last of many": func(size int) string {
			return object(properties(size/2, `"p%d":{"$ref":"#/$defs/last"}`) + `,"$defs":{` +
				list(size/2, numbered(`"d%d":{"type":"string"}`)) + `,"last":{"type":"string"}}`)
		},
		"references to many": func(size int) string {
			return object(properties(size/2, `"p%d":{"$ref":"#/$defs/d%d"}`) + `,"$defs":{` +
				list(size/2, numbered(`"d%d":{"type":"string"}`)) + `}`)
		},
		"references in circles": func(size int) string {
			return object(properties(size/2, `"p%d":{"$ref":"#/$defs/d%d"}`) + `,"$defs":{` +
				list(size/2, numbered(`"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#"}}}`)) + `}`)
		},
		"a long reference": func(size int) string {
			return object(`"properties":{"a":{"$ref":"#/` + strings.Repeat("a/", size/2) + `"}}`)
		},
		"definitions": func(size int) string {
			return object(`"$defs":{` + list(size, numbered(`"d%d":{"type":"string"}`)) + `}`)
		},
		"properties": func(size int) string { return object(properties(size, `"p%d":{"type":"string"}`)) },
		"required": func(size int) string {
			return object(properties(size/2, `"p%d":{"type":"string"}`) + `,"required":[` + list(size/2, numbered(`"p%d"`)) +
				`]`)
		},
		"required of others": func(size int) string {
			return object(`"properties":{"a":{}},"required":[` + list(size, numbered(`"p%d"`)) + `]`)
		},
		"enum": func(size int) string {
			return object(`"properties":{"a":{"enum":[` + list(size, numbered(`"v%d"`)) + `]}}`)
		},
		"enum of everything": func(size int) string {
			return object(`"properties":{"a":{"enum":[` + list(size, numbered(`"v%d",null,{"a":%d}`)) + `]}}`)
		},
		"constants": func(size int) string { return object(properties(size, `"p%d":{"const":%d}`)) },
		"keywords that nobody knows": func(size int) string {
			return object(`"properties":{"a":{"description":"d",` + list(size, numbered(`"x%d":%d`)) + `}}`)
		},
		"hints": func(size int) string {
			return object(properties(size, `"p%d":{"type":"string","description":"d","pattern":"%d"}`))
		},
		"long text": func(size int) string {
			return object(`"properties":{"a":{"description":"` + strings.Repeat("x", size) + `","pattern":"a"}}`)
		},
		"text of escapes": func(size int) string {
			return object(`"properties":{"a":{"description":"` + strings.Repeat(`\"\u00e9`, size/8) + `","pattern":"a"}}`)
		},
		"all of": func(size int) string {
			return object(`"properties":{"a":{"allOf":[` +
				list(size, numbered(`{"type":"object","properties":{"p%d":{"type":"string"}},"required":["p%d"]}`)) + `]}}`)
		},
		"all of references": func(size int) string {
			return object(`"properties":{"a":{"allOf":[` + list(size/2, always(`{"$ref":"#/$defs/d"}`)) + `]}},"$defs":{"d":` +
				object(properties(size/2, `"p%d":{"type":"string"}`)) + `}`)
		},
		"any of": func(size int) string {
			return object(`"properties":{"a":{"anyOf":[` + list(size, numbered(`{"const":"v%d"}`)) + `]}}`)
		},
		"any of at the root": func(size int) string {
			return object(`"anyOf":[` + list(size, numbered(`{"const":"v%d"}`)) + `]`)
		},
		"types": func(size int) string {
			return object(`"properties":{"a":{"type":[` + list(size, always(`"string"`)) + `]}}`)
		},
		"depth of properties": func(size int) string {
			return object(`"properties":{` + list(size, func(i int) string {
				return fmt.Sprintf(`"p%d":`, i) + nested(40*30, `{"properties":{"a":`, `{}`, `},"type":"object"}`)
			}) + `}`)
		},
		"depth of items":  func(size int) string { return object(`"anyOf":[` + deep(size, `{"items":`, `{}`, `}`) + `]`) },
		"depth of all of": func(size int) string { return object(`"anyOf":[` + deep(size, `{"allOf":[`, `{}`, `]}`) + `]`) },
		"depth of descriptions": func(size int) string {
			return object(`"anyOf":[` + deep(size, `{"description":"some words that are said of it","minimum":3,"items":`, `{}`,
				`}`) + `]`)
		},
	}
	var out []shape
	for name, schema := range all {
		out = append(out, schemaShapes(name, schema)...)
	}
	for i := range out {
		out[i].schema = true
	}
	return out
}

func conversations() []shape {
	carried := new(openai.CarrierKey).For("", "").Carry("call", []byte(`{"thinking":"`+strings.Repeat("a", 200<<10)+`"}`))
	const call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"f%d","arguments":"{\"a\":1}"}}]}`
	calls := func(size int, format string) string {
		return `{"role":"assistant","tool_calls":[` + list(size, numbered(format)) + `]}`
	}
	function := func(id, arguments string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"` + arguments + `"}}`
	}
	parts := func(format string) func(int) string {
		return func(size int) string { return `{"role":"user","content":[` + list(size, numbered(format)) + `]}` }
	}
	return []shape{
		messagesShape("turns", func(size int) string {
			return list(size, always(user+`,{"role":"assistant","content":"yes"}`))
		}),
		messagesShape("messages of the user", func(size int) string { return list(size, always(user)) }),
		messagesShape("messages of the assistant", func(size int) string {
			return user + "," + list(size, always(`{"role":"assistant","content":"x"}`))
		}),
		messagesShape("messages of the system", func(size int) string {
			return user + "," + list(size, always(`{"role":"system","content":"x"}`))
		}),
		messagesShape("empty messages", func(size int) string {
			return user + "," + list(size, always(`{"role":"user","content":""}`))
		}),
		messagesShape("names", func(size int) string {
			return list(size, numbered(`{"role":"user","name":"n%d","content":"x"}`))
		}),
		messagesShape("members of messages", func(size int) string {
			return `{"role":"user","content":"x",` + list(size, numbered(`"m%d":1`)) + `}`
		}),
		messagesShape("calls and results", func(size int) string {
			return user + "," + list(size, numbered(call+`,{"role":"tool","tool_call_id":"c%d","content":"x"}`))
		}),
		messagesShape("calls of one id", func(size int) string {
			return user + "," + list(size, always(`{"role":"assistant","tool_calls":[`+function("c", "{}")+
				`]},{"role":"tool","tool_call_id":"c","content":"x"}`))
		}),
		messagesShape("calls at once", func(size int) string {
			return user + "," + calls(size/2, function("c%d", "{}")) + "," +
				list(size/2, numbered(`{"role":"tool","tool_call_id":"c%d","content":"x"}`))
		}),
		messagesShape("calls at once of one id", func(size int) string {
			return user + "," + calls(size/2, function("c", "{}")) + "," +
				list(size/2, always(`{"role":"tool","tool_call_id":"c","content":"x"}`))
		}),
		messagesShape("calls without results", func(size int) string {
			return user + "," + calls(size, function("c%d", "")) + "," + user
		}),
		messagesShape("results without calls", func(size int) string {
			return user + "," + list(size, numbered(`{"role":"tool","tool_call_id":"c%d","content":"x"}`))
		}),
		messagesShape("functions' results", func(size int) string {
			return user + "," +
				list(size,
					numbered(`{"role":"assistant","function_call":{"name":"f%d","arguments":""}},{"role":"function","name":"f%d","content":"x"}`))
		}),
		messagesShape("names of tools that are renamed", func(size int) string {
			return user + "," + calls(size, `{"id":"c%d","type":"function","function":{"name":"a tool.%d","arguments":""}}`)
		}),
		messagesShape("arguments of many members", func(size int) string {
			return user + "," + `{"role":"assistant","tool_calls":[` + function("c", "{"+list(size, numbered(`\"m%d\":1`))+
				"}") + `]}`
		}),
		messagesShape("deep arguments", func(size int) string {
			return user + "," + `{"role":"assistant","tool_calls":[` + function("c", `{\"a\":[`+deep(size, `[`, ``, `]`)+"]}") +
				`]}`
		}),
		messagesShape("arguments that are no JSON", func(size int) string {
			return user + "," + `{"role":"assistant","tool_calls":[` + function("c", nested(size, `{\"a\":[`, "", "")) + `]}`
		}),
		messagesShape("ids that carry much", func(size int) string {
			return user + "," + list(size, always(`{"role":"assistant","tool_calls":[`+function(carried, "{}")+`]}`))
		}),
		messagesShape("what Google adds to calls", func(size int) string {
			return user + "," +
				calls(size,
					`{"id":"c%d","type":"function","function":{"name":"f","arguments":""},"extra_content":{"google":{"thought_signature":"a%d"}}}`)
		}),
		messagesShape("thinking", func(size int) string {
			return user + `,{"role":"assistant","content":"x","thinking_blocks":[` +
				list(size, numbered(`{"type":"thinking","thinking":"t%d","signature":"s"}`)) + `]}`
		}),
		messagesShape("thinking of many turns", func(size int) string {
			return list(size,
				always(user+
					`,{"role":"assistant","content":"x","reasoning_content":"r","thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"}]}`))
		}),
		messagesShape("text that thinks", func(size int) string {
			return user + `,{"role":"assistant","content":"` + strings.Repeat(`<think>a</think>b`, size/17) + `"}`
		}),
		messagesShape("parts", parts(`{"type":"text","text":"t%d"}`)),
		messagesShape("images", parts(`{"type":"image_url","image_url":{"url":"data:image/png;base64,aaaa"}}`)),
		messagesShape("images elsewhere",
			parts(`{"type":"image_url","image_url":{"url":"https://example.com/%d.png","detail":"low"}}`)),
		messagesShape("sounds", parts(`{"type":"input_audio","input_audio":{"data":"aaaa","format":"wav"}}`)),
		messagesShape("files",
			parts(`{"type":"file","file":{"filename":"a b%d.pdf","file_data":"data:application/pdf;base64,aaaa"}}`)),
		messagesShape("parts of unknown types", parts(`{"type":"t%d","t%d":1}`)),
		messagesShape("marked parts", parts(`{"type":"text","text":"t%d","cache_control":{"type":"ephemeral"}}`)),
		messagesShape("marked messages", func(size int) string {
			return list(size, always(`{"role":"user","content":"x","cache_control":{"type":"ephemeral"}}`))
		}),
		messagesShape("a large image", func(size int) string {
			return `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
				base64.StdEncoding.EncodeToString(make([]byte, size*3/4)) + `"}}]}`
		}),
		messagesShape("long text", func(size int) string {
			return `{"role":"user","content":"` + strings.Repeat("word ", size/5) + `"}`
		}),
		messagesShape("escapes", func(size int) string {
			return `{"role":"user","content":"` + strings.Repeat(`\"\\\n`, size/6) + `"}`
		}),
		messagesShape("backslashes", func(size int) string {
			return `{"role":"user","content":"` + strings.Repeat(`\\`, size/2) + `"}`
		}),
		messagesShape("escaped runes", func(size int) string {
			return `{"role":"user","content":"` + strings.Repeat(`\ud83d\ude42\u00e9`, size/18) + `"}`
		}),
		messagesShape("white space", func(size int) string { return strings.Repeat(" ", size) + user }),
		messagesShape("white space between", func(size int) string {
			return list(size, always(`{ "role" : "user" , "content" : "x" }`+strings.Repeat(" \n", 50)))
		}),
	}
}

func members() []shape {
	tools := func(size int) string {
		return `"tools":[` + list(size, numbered(`{"type":"function","function":{"name":"f%d"}}`)) + `]`
	}
	return []shape{
		chatShape("members", func(size int) string { return list(size, numbered(`"m%d":1`)) }),
		chatShape("members of one name", func(size int) string { return list(size, always(`"m":1`)) }),
		chatShape("members of one member", func(size int) string { return `"m":{` + list(size, numbered(`"m%d":1`)) + `}` }),
		chatShape("objects", func(size int) string { return `"m":[` + list(size, always(`{}`)) + `]` }),
		chatShape("depth that is refused", func(size int) string { return `"m":` + nested(size, "[", "", "]") }),
		chatShape("depth of objects that is refused",
			func(size int) string { return `"m":` + nested(size, `{"a":`, "1", "}") }),
		chatShape("depth that does not end", func(size int) string { return `"m":` + nested(size, `{"a":[`, "", "") }),
		chatShape("depth", func(size int) string { return `"m":[` + deep(size, `{"a":[`, "", "]}") + `]` }),
		chatShape("metadata", func(size int) string { return `"metadata":{` + list(size, numbered(`"m%d":"v"`)) + `}` }),
		chatShape("biases", func(size int) string { return `"logit_bias":{` + list(size, numbered(`"%d":1`)) + `}` }),
		chatShape("stops", func(size int) string { return `"stop":[` + list(size, numbered(`"s%d"`)) + `]` }),
		chatShape("modalities", func(size int) string { return `"modalities":[` + list(size, always(`"text"`)) + `]` }),
		chatShape("a long name of the user", func(size int) string { return `"user":"` + strings.Repeat("u", size) + `"` }),
		chatShape("a long prediction", func(size int) string {
			return `"prediction":{"type":"content","content":"` + strings.Repeat("u", size) + `"}`
		}),
		chatShape("search", func(size int) string {
			return `"web_search_options":{"a":[` + deep(size, `[`, "", "]") + `]}`
		}),
		chatShape("functions", func(size int) string {
			return `"functions":[` + list(size, numbered(`{"name":"f%d","parameters":{"type":"object"}}`)) + `]`
		}),
		chatShape("tools", tools),
		chatShape("tools of one name", func(size int) string {
			return `"tools":[` + list(size, always(`{"type":"function","function":{"name":"f"}}`)) + `]`
		}),
		chatShape("tools that are renamed", func(size int) string {
			return `"tools":[` + list(size, numbered(`{"type":"function","function":{"name":"a tool.%d","description":"d"}}`)) +
				`]`
		}),
		chatShape("tools of other types", func(size int) string {
			return `"tools":[` + list(size, numbered(`{"type":"t%d"}`)) + `]`
		}),
		chatShape("tools that search", func(size int) string {
			return `"tools":[` + list(size, always(`{"type":"web_search"}`)) + `]`
		}),
		chatShape("tools with schemas", func(size int) string {
			return `"tools":[` +
				list(size,
					numbered(`{"type":"function","function":{"name":"f%d","parameters":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}}}`)) + `]`
		}),
		chatShape("tools that are allowed", func(size int) string {
			return tools(size/2) + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` +
				list(size/2, numbered(`{"type":"function","function":{"name":"f%d"}}`)) + `]}}`
		}),
		chatShape("a tool that is chosen of many", func(size int) string {
			return tools(size) + `,"tool_choice":{"type":"function","function":{"name":"f1"}}`
		}),
		{name: "tools and calls", path: "/v1/chat/completions", contentType: "application/json",
			body: func(size int) string {
				return `{"model":"any",` + tools(size/2) + `,"messages":[` + user + `,{"role":"assistant","tool_calls":[` +
					list(size/2, numbered(`{"id":"c%d","type":"function","function":{"name":"g%d","arguments":""}}`)) + `]}]}`
			}},
	}
}

func otherOperations() []shape {
	of := func(path, name string, members func(size int) string) shape {
		return shape{name: path[len("/v1/"):] + ": " + name, path: path, contentType: "application/json",
			body: func(size int) string {
				return `{"model":"any",` + members(size) + `}`
			}}
	}
	form := func(name, part string) shape {
		return shape{name: "form: " + name, path: "/v1/audio/transcriptions", contentType: "multipart/form-data; boundary=b",
			body: func(size int) string {
				return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nany\r\n" +
					strings.ReplaceAll(list(size, numbered(part)), ",--b", "--b") + "--b--\r\n"
			}}
	}
	one := func(name, before, repeated, after string) shape {
		s := form(name, "")
		s.body = func(size int) string {
			return "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nany\r\n--b\r\n" + before +
				strings.Repeat(repeated, size/len(repeated)) + after + "\r\n--b--\r\n"
		}
		return s
	}
	return []shape{
		of("/v1/completions", "a prompt", func(size int) string {
			return `"prompt":"` + strings.Repeat("word ", size/5) + `"`
		}),
		of("/v1/completions", "prompts", func(size int) string { return `"prompt":[` + list(size, always(`"p\n"`)) + `]` }),
		of("/v1/completions", "tokens", func(size int) string { return `"prompt":[` + list(size, numbered(`%d`)) + `]` }),
		of("/v1/completions", "prompts of tokens", func(size int) string {
			return `"prompt":[` + list(size, always(`[1]`)) + `]`
		}),
		of("/v1/completions", "members", func(size int) string { return `"prompt":"p",` + list(size, numbered(`"m%d":1`)) }),
		of("/v1/completions", "stops", func(size int) string {
			return `"prompt":"p","stop":[` + list(size, numbered(`"s%d"`)) + `]`
		}),
		of("/v1/embeddings", "texts", func(size int) string { return `"input":[` + list(size, numbered(`"t%d"`)) + `]` }),
		of("/v1/embeddings", "escaped texts", func(size int) string {
			return `"input":[` + list(size, always(`"\u00e9\n"`)) + `]`
		}),
		of("/v1/embeddings", "tokens", func(size int) string { return `"input":[` + list(size, always(`1`)) + `]` }),
		of("/v1/embeddings", "texts of tokens", func(size int) string {
			return `"input":[` + list(size, always(`[1]`)) + `]`
		}),
		of("/v1/embeddings", "members", func(size int) string { return `"input":"p",` + list(size, numbered(`"m%d":1`)) }),
		of("/v1/responses", "input", func(size int) string {
			return `"input":[` + list(size, always(`{"role":"user","content":"x"}`)) + `]`
		}),
		of("/v1/responses", "tools", func(size int) string {
			return `"input":"x","tools":[` + list(size,
				numbered(`{"type":"function","name":"f%d","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}`)) +
				`]`
		}),
		of("/v1/responses", "required of a tool", func(size int) string {
			return `"input":"x","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{` +
				list(size/2, numbered(`"p%d":{}`)) + `},"required":[` + list(size/2, numbered(`"r%d"`)) + `]}}]`
		}),
		of("/v1/responses", "depth of a tool", func(size int) string {
			return `"input":"x","tools":[` + list(size, func(int) string {
				return `{"type":"function","name":"f","parameters":` + nested(40*30, `{"type":"object","properties":{"a":`, `{}`,
					`}}`) + `}`
			}) + `]`
		}),
		of("/v1/responses", "members", func(size int) string { return list(size, numbered(`"m%d":1`)) }),
		of("/v1/moderations", "texts", func(size int) string { return `"input":[` + list(size, always(`"x"`)) + `]` }),
		of("/v1/images/generations", "a prompt", func(size int) string {
			return `"prompt":"` + strings.Repeat(`\n`, size/2) + `"`
		}),
		form("fields", "--b\r\nContent-Disposition: form-data; name=\"f%d\"\r\n\r\nx\r\n"),
		one("headers", "Content-Disposition: form-data; name=\"f\"\r\n", "X-Header: a\r\n", "\r\nx"),
		one("a long header", "Content-Disposition: form-data; name=\"", "a", "\"\r\n\r\nx"),
		one("a header of escapes", "Content-Disposition: form-data; name=\"", `\"`, "\"\r\n\r\nx"),
		one("parameters", "Content-Disposition: form-data; name=\"f\"", "; a*0=b", "\r\n\r\nx"),
		one("boundaries within lines", "Content-Disposition: form-data; name=\"f\"\r\n\r\n", "x--b", ""),
		one("nearly boundaries", "Content-Disposition: form-data; name=\"f\"\r\n\r\n", "-", ""),
		one("lines", "Content-Disposition: form-data; name=\"f\"\r\n\r\n", "\r\n", ""),
	}
}
