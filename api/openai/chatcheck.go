package openai

import (
	"bytes"
	"strings"

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

// maxModelName bounds a model's name in bytes. It is matched against patterns, and told in errors and logs.
const maxModelName = 256

// check reads the body once: it checks syntax and the members it knows, and records where each member stands.
func (r *ChatRequest) check() error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(r.Body))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return notJSON(err)
		}
		return BadRequest("", "invalid_type", "The JSON body of your request must be an object.")
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	r.members = make([]member, 0, 8)
	for dec.PeekKind() != '}' {
		if err := r.checkMember(dec); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	if rest := bytes.TrimLeft(r.Body[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return BadRequest("", "invalid_json", "We could not parse the JSON body of your request: there is more after its end, at byte %d.", len(r.Body)-len(rest))
	}
	return r.checkWhole()
}

func (r *ChatRequest) checkMember(dec *jsontext.Decoder) error {
	quoted, err := dec.ReadValue()
	if err != nil {
		return notJSON(err)
	}
	nameEnd := int(dec.InputOffset())
	m := member{name: unquote(quoted), nameStart: nameEnd - len(quoted)}
	if m.name == "messages" && dec.PeekKind() == '[' {
		if err := checkMessages(dec); err != nil {
			return err
		}
		m.end = int(dec.InputOffset())
		m.start = nameEnd + bytes.IndexByte(r.Body[nameEnd:], '[')
	} else {
		v, err := dec.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		m.end = int(dec.InputOffset())
		m.start = m.end - len(v)
		if err := r.checkValue(m.name, v); err != nil {
			return err
		}
	}
	r.members = append(r.members, m)
	return nil
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
		return r.readStreamOptions(v)
	}
	return nil
}

// checkWhole is what can only be said once every member was seen.
func (r *ChatRequest) checkWhole() error {
	switch {
	case r.present("model") == nil:
		return missing("model")
	case strings.TrimSpace(r.Model) == "":
		return BadRequest("model", "invalid_value", "Invalid 'model': it is empty. Name a model, such as 'openai/gpt-4o'.")
	case len(r.Model) > maxModelName:
		return BadRequest("model", "string_above_max_length", "Invalid 'model': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", maxModelName, len(r.Model))
	case r.present("messages") == nil:
		return missing("messages")
	case !r.Stream && r.present("stream_options") != nil:
		return BadRequest("stream_options", "invalid_value", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case r.present("top_logprobs") != nil && r.present("logprobs").Kind() != 't':
		return BadRequest("top_logprobs", "invalid_value", "The 'top_logprobs' parameter is only allowed when 'logprobs' is true.")
	case r.present("audio") == nil && wantsAudio(r.present("modalities")):
		return missing("audio")
	}
	return nil
}

// present returns a member's value, or nil where it is absent or null.
func (r *ChatRequest) present(name string) jsontext.Value {
	if v := r.Get(name); v != nil && v.Kind() != 'n' {
		return v
	}
	return nil
}

func wantsAudio(modalities jsontext.Value) bool {
	return modalities != nil && bytes.Contains(modalities, []byte(`"audio"`))
}

func (r *ChatRequest) readStreamOptions(v jsontext.Value) error {
	return eachMember(v, func(name string, v jsontext.Value) error {
		if name != "include_usage" || v.Kind() == 'n' {
			return nil
		}
		r.IncludeUsage = v.Kind() == 't'
		return boolean("stream_options.include_usage", v)
	})
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
	err := eachMember(v, func(member string, v jsontext.Value) error {
		switch member {
		case "type":
			if v.Kind() != '"' {
				return wrongType(param+".type", "a string", v.Kind())
			}
			typ = unquote(v)
		case "json_schema":
			schema = v.Clone()
		}
		return nil
	})
	switch {
	case err != nil:
		return err
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
	err = eachMember(schema, func(member string, v jsontext.Value) error {
		if member == "name" && v.Kind() == '"' {
			name = unquote(v)
		}
		return nil
	})
	if err == nil && name == "" {
		return missing(param + ".json_schema.name")
	}
	return err
}
