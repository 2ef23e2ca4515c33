package openai

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// chatChecks are the members of a chat completion request whose type or range is known, messages apart. Null means
// absent for all but the required ones. Everything else passes: providers have members of their own. Bounds are those of
// the interface document and of OpenAI's API description.
var chatChecks = map[string]check{
	"max_tokens":            integer(1, maxInteger),
	"max_completion_tokens": integer(1, maxInteger),
	"n":                     integer(1, 128),
	"top_logprobs":          integer(0, 20),
	"seed":                  integer(-maxInteger, maxInteger),
	"temperature":           number(0, 2),
	"top_p":                 number(0, 1),
	"frequency_penalty":     number(-2, 2),
	"presence_penalty":      number(-2, 2),
	"model":                 kind("a string", '"'),
	"stream":                boolean,
	"stream_options":        kind("an object", '{'),
	"logprobs":              boolean,
	"store":                 boolean,
	"parallel_tool_calls":   boolean,
	"user":                  kind("a string", '"'),
	"service_tier":          kind("a string", '"'),
	"reasoning_effort":      kind("a string", '"'),
	"logit_bias":            kind("an object", '{'),
	"metadata":              kind("an object", '{'),
	"audio":                 kind("an object", '{'),
	"prediction":            kind("an object", '{'),
	"tools":                 arrayOf("an object", '{'),
	"tool_choice":           checkToolChoice,
	"modalities":            arrayOf("a string", '"'),
	"stop":                  checkStop,
	"response_format":       checkResponseFormat,
}

// check checks the syntax of the body and the members it knows, and records where each member stands.
func (r *ChatRequest) check() error {
	err := r.read(func(c *cursor, name string) (err error) {
		if name != "messages" || c.peek() != '[' {
			return r.checkValue(name, c.value())
		}
		r.messages, err = checkMessages(c)
		return err
	})
	if err != nil {
		return err
	}
	return r.checkWhole()
}

func (r *ChatRequest) checkValue(name string, v jsontext.Value) error {
	if v.Kind() == 'n' {
		return nil
	}
	if name == "messages" {
		return wrongType(name, "an array of objects", v.Kind())
	}
	if f := chatChecks[name]; f != nil {
		if err := f(name, v); err != nil {
			return err
		}
	}
	switch name {
	case "model":
		r.Model = unquote(v)
	case "stream":
		r.Stream = v.Kind() == 't'
	case "stream_options":
		return readStreamOptions(v, &r.IncludeUsage)
	}
	return nil
}

// checkWhole is what can only be said once every member was seen.
func (r *ChatRequest) checkWhole() error {
	if err := r.checkModel(r.Model); err != nil {
		return err
	}
	switch {
	case r.present("messages") == nil:
		return missing("messages")
	case !r.Stream && r.present("stream_options") != nil:
		return errStreamOptions()
	case r.present("top_logprobs") != nil && r.present("logprobs").Kind() != 't':
		return BadRequest("top_logprobs", "invalid_value", "The 'top_logprobs' parameter is only allowed when 'logprobs' is true.")
	case r.present("audio") == nil && wantsAudio(r.present("modalities")):
		return missing("audio")
	}
	return nil
}

func wantsAudio(modalities jsontext.Value) bool {
	return modalities != nil && bytes.Contains(modalities, []byte(`"audio"`))
}

func checkToolChoice(param string, v jsontext.Value) error {
	switch v.Kind() {
	case '{':
		return nil
	case '"':
		if s := unquote(v); s != "none" && s != "auto" && s != "required" {
			return BadRequest(param, "invalid_value", "Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required', or an object.", s)
		}
		return nil
	}
	return wrongType(param, "one of 'none', 'auto' and 'required', or an object", v.Kind())
}

func checkStop(param string, v jsontext.Value) error {
	if v.Kind() == '"' {
		return nil
	}
	return arrayOf("a string", '"')(param, v)
}

func checkResponseFormat(param string, v jsontext.Value) error {
	if v.Kind() != '{' {
		return wrongType(param, "an object", v.Kind())
	}
	var typ, name string
	var schema jsontext.Value
	c := cursor{data: v}
	for c.enter(); c.more(); {
		switch string(c.name()) {
		case "type":
			if k := c.peek(); k != '"' {
				return wrongType(param+".type", "a string", k)
			}
			typ = intern(c.name())
		case "json_schema":
			schema = c.value()
		default:
			c.value()
		}
	}
	switch {
	case typ == "":
		return missing(param + ".type")
	case typ != "text" && typ != "json_object" && typ != "json_schema":
		return BadRequest(param+".type", "invalid_value", "Invalid value: '%s'. Supported values are: 'text', 'json_object', and 'json_schema'.", typ)
	case typ != "json_schema":
		return nil
	case schema == nil:
		return missing(param + ".json_schema")
	case schema.Kind() != '{':
		return wrongType(param+".json_schema", "an object", schema.Kind())
	}
	c = cursor{data: schema}
	for c.enter(); c.more(); {
		if string(c.name()) == "name" && c.peek() == '"' {
			name = unquote(c.value())
		} else {
			c.value()
		}
	}
	if name == "" {
		return missing(param + ".json_schema.name")
	}
	return nil
}
