package openai

import (
	"bytes"
	"math"

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
	"seed":                  integer(math.MinInt64, math.MaxInt64),
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
	if err := r.read(r.checkMember); err != nil {
		return err
	}
	if err := r.checkSchemas("response_format", "tools", "functions"); err != nil {
		return err
	}
	return r.checkWhole()
}

func (r *ChatRequest) checkMember(c *cursor, name string) (err error) {
	switch k := c.peek(); {
	case k == 'n':
		c.value()
	case name == "messages" && k != '[':
		return WrongType(name, "an array of objects", k)
	case name == "messages":
		r.messages, err = checkMessages(c)
	case name == "model" && k == '"':
		r.Model = string(c.str())
	case name == "stream" && (k == 't' || k == 'f'):
		r.Stream = k == 't'
		c.value()
	case name == "stream_options" && k == '{':
		return readStreamOptions(c, &r.IncludeUsage)
	case chatChecks[name] != nil:
		return chatChecks[name](name, c)
	default:
		c.value()
	}
	return err
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

func checkToolChoice(param string, c *cursor) error {
	switch k := c.peek(); k {
	case '{':
		c.value()
		return nil
	case '"':
		if s := c.str(); string(s) != "none" && string(s) != "auto" && string(s) != "required" {
			return BadRequest(param, "invalid_value", "Invalid value: '%s'. Supported values are: 'none', 'auto', and 'required', or an object.", s)
		}
		return nil
	default:
		return WrongType(param, "one of 'none', 'auto' and 'required', or an object", k)
	}
}

func checkStop(param string, c *cursor) error {
	if c.peek() == '"' {
		c.value()
		return nil
	}
	return arrayOf("a string", '"')(param, c)
}

func checkResponseFormat(param string, c *cursor) error {
	if k := c.peek(); k != '{' {
		return WrongType(param, "an object", k)
	}
	var typ string
	var schema jsontext.Value
	for c.enter(); c.more(); {
		switch string(c.str()) {
		case "type":
			if k := c.peek(); k != '"' {
				return WrongType(param+".type", "a string", k)
			}
			typ = string(c.str())
		case "json_schema":
			schema = c.value()
		default:
			c.value()
		}
	}
	switch {
	case typ == "":
		return missing(param + ".type")
	case typ == "json_schema":
		return checkSchema(param+".json_schema", schema)
	case typ != "text" && typ != "json_object":
		return BadRequest(param+".type", "invalid_value", "Invalid value: '%s'. Supported values are: 'text', 'json_object', and 'json_schema'.", typ)
	}
	return nil
}

// checkSchema checks the member json_schema of a response format, which may be absent.
func checkSchema(param string, schema jsontext.Value) error {
	if schema == nil {
		return missing(param)
	}
	c := cursor{data: schema}
	if k := c.peek(); k != '{' {
		return WrongType(param, "an object", k)
	}
	named := false
	for c.enter(); c.more(); {
		isName := string(c.str()) == "name"
		if v := c.value(); isName {
			named = v.Kind() == '"' && len(v) > len(`""`)
		}
	}
	if !named {
		return missing(param + ".name")
	}
	return nil
}
