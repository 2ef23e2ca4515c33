package openai

import (
	"bytes"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// chatChecks are the members of a chat completion request with a known type or range, except for messages. Null
// means absent, except for required members. All other members pass, because providers have their own. The bounds
// come from the interface document and OpenAI's API description. A value that only other vendors accept is a
// deviation.
var chatChecks = map[string]check{
	"max_tokens":            rangedInteger(1, maxInteger),
	"max_completion_tokens": rangedInteger(1, maxInteger),
	"n":                     integer(1, 128),
	"top_logprobs":          rangedInteger(0, 20),
	"seed":                  integer(math.MinInt64, math.MaxInt64),
	"temperature":           rangedNumber(0, 2),
	"top_p":                 rangedNumber(0, 1),
	"frequency_penalty":     rangedNumber(-2, 2),
	"presence_penalty":      rangedNumber(-2, 2),
	"model":                 kind("a string", '"'),
	"stream":                boolean,
	"stream_options":        kind("an object", '{'),
	"logprobs":              checkLogprobs,
	"store":                 boolean,
	"parallel_tool_calls":   boolean,
	"user":                  kind("a string", '"'),
	"safety_identifier":     kind("a string", '"'),
	"prompt_cache_key":      kind("a string", '"'),
	"service_tier":          oneOf("auto", "default", "flex", "scale", "priority"),
	"reasoning_effort":      oneOf("none", "minimal", "low", "medium", "high", "xhigh", "max"),
	"verbosity":             oneOf("low", "medium", "high"),
	"logit_bias":            checkBias,
	"metadata":              kind("an object", '{'),
	"web_search_options":    kind("an object", '{'),
	"audio":                 objectOf(checkAudio),
	"prediction":            objectOf(checkPrediction),
	"tools":                 objectsOf(checkTool),
	"functions":             objectsOf(checkFunction),
	"tool_choice":           checkToolChoice,
	"function_call":         checkFunctionCall,
	"modalities":            checkModalities,
	"stop":                  checkStop,
	"response_format":       objectOf(checkFormat),
}

// check checks the syntax of the body and the known members, and records the position of each member.
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
	default:
		if check := chatChecks[name]; check != nil {
			return check(name, c)
		}
		c.value()
	}
	return err
}

// checkWhole checks what depends on several members.
func (r *ChatRequest) checkWhole() error {
	if err := r.checkModel(r.Model); err != nil {
		return err
	}
	if r.present("messages") == nil {
		return missing("messages")
	}
	if err := r.checkStreamOptions(r.Stream); err != nil {
		return err
	}
	logprobs := r.present("logprobs").Kind()
	if r.present("top_logprobs") != nil && logprobs != 't' && logprobs != '0' {
		if err := r.addDeviation("top_logprobs", func() *Error {
			return CodeInvalidValue.On("top_logprobs",
				"The 'top_logprobs' parameter is only allowed when 'logprobs' is true.")
		}); err != nil {
			return err
		}
	}
	if r.present("audio") == nil && wantsAudio(r.present("modalities")) {
		return r.addDeviation("audio", func() *Error { return missing("audio") })
	}
	return nil
}

func wantsAudio(modalities jsontext.Value) bool {
	return modalities != nil && bytes.Contains(modalities, []byte(`"audio"`))
}

// checkLogprobs checks logprobs, which are a number at Together and Fireworks, as in legacy completions.
func checkLogprobs(param string, c *cursor) error {
	if k := c.peek(); k == '0' {
		c.value()
		return c.addDeviation(param, func() *Error { return WrongType(param, "a boolean", k) })
	}
	return boolean(param, c)
}

// oneOf checks a word of a list that OpenAI extends.
func oneOf(known ...string) check {
	return func(param string, c *cursor) error {
		if k := c.peek(); k != '"' {
			return WrongType(param, "a string", k)
		}
		word := c.value()
		c.addUnknownWord(func() string { return param }, word, known...)
		return nil
	}
}

func checkStop(param string, c *cursor) error {
	if c.peek() == '"' {
		c.value()
		return nil
	}
	return arrayOf("a string", '"')(param, c)
}
