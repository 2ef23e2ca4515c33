package openai

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Unnamed is the deviation of a response format whose JSON schema has no name.
const Unnamed = "response_format.json_schema.name"

var (
	formatFields = []field{{name: "type", kind: '"', required: true},
		{name: "json_schema", kind: '{', inner: checkSchema}}
	schemaFields = []field{{name: "name", kind: '"'}, {name: "description", kind: '"'}, {name: "schema", kind: '{'},
		{name: "strict", kind: 't'}}
)

// checkFormat checks a response format. Vendors have their own types, and JSON schemas without a name or at another
// place.
func checkFormat(c *cursor) error {
	var got [2]jsontext.Value
	if err := c.object(formatFields, got[:]); err != nil {
		return err
	}
	switch typ := Unquote(got[0]); typ {
	case "text", "json_object":
		return nil
	case "json_schema":
		if got[1] == nil {
			return c.addDeviation("response_format.json_schema", func() *Error { return missing(c.where("json_schema")) })
		}
		return nil
	default:
		return c.addDeviation("response_format:"+typ, func() *Error {
			return unknownWord(c.where("type"), typ, []string{"text", "json_object", "json_schema"})
		})
	}
}

// checkSchema checks the member json_schema of a response format.
func checkSchema(c *cursor) error {
	var got [4]jsontext.Value
	if err := c.object(schemaFields, got[:]); err != nil {
		return err
	}
	if got[0] == nil || string(got[0]) == `""` {
		return c.addDeviation(Unnamed, func() *Error { return missing(c.where("name")) })
	}
	return nil
}

// NameSchema adds a name to the schema of a response format.
func NameSchema(format []byte) []byte {
	c := &cursor{data: format}
	for c.enter(); c.more(); {
		if name := string(c.str()); c.peek() != '{' || name != "json_schema" {
			c.value()
			continue
		}
		c.enter()
		at := c.at
		empty := !c.more()
		for more := !empty; more; more = c.more() {
			name := string(c.str())
			c.peek()
			start := c.at
			if c.value(); name == "name" {
				return slices.Concat(format[:start], []byte(`"response"`), format[c.at:])
			}
		}
		member := `"name":"response",`
		if empty {
			member = member[:len(member)-1]
		}
		return slices.Concat(format[:at], []byte(member), format[at:])
	}
	return format
}

var predictionFields = []field{{name: "type", kind: '"', required: true}, {name: "content", required: true}}

func checkPrediction(c *cursor) error {
	var got [2]jsontext.Value
	if err := c.object(predictionFields, got[:]); err != nil {
		return err
	}
	if k := got[1].Kind(); k != '"' && k != '[' {
		return WrongType(c.where("content"), "a string or an array of objects", k)
	}
	c.addUnknownWord(func() string { return c.where("type") }, got[0], "content")
	return nil
}

var audioFields = []field{{name: "voice", required: true}, {name: "format", kind: '"', required: true}}

func checkAudio(c *cursor) error {
	var got [2]jsontext.Value
	if err := c.object(audioFields, got[:]); err != nil {
		return err
	}
	if k := got[0].Kind(); k != '"' && k != '{' {
		return WrongType(c.where("voice"), "a string or an object", k)
	}
	c.addUnknownWord(func() string { return c.where("format") }, got[1], "wav", "aac", "mp3", "flac", "opus", "pcm16")
	return nil
}

// checkModalities checks the modalities of the output.
func checkModalities(param string, c *cursor) error {
	if k := c.peek(); k != '[' {
		return WrongType(param, "an array", k)
	}
	i := 0
	for c.enter(); c.more(); i++ {
		at := func() string { return param + "[" + strconv.Itoa(i) + "]" }
		if k := c.peek(); k != '"' {
			return WrongType(at(), "a string", k)
		}
		if i == maxElements {
			return tooLong(param, maxElements)
		}
		word := c.value()
		c.addUnknownWord(at, word, "text", "audio")
	}
	return nil
}

// checkBias checks the biases of tokens. llama.cpp also accepts an array of pairs, and false for never.
func checkBias(param string, c *cursor) error {
	switch k := c.peek(); k {
	case '{':
	case '[':
		c.value()
		return c.addDeviation(param, func() *Error { return WrongType(param, "an object", k) })
	default:
		return WrongType(param, "an object", k)
	}
	for c.enter(); c.more(); {
		token, k := c.str(), c.peek()
		v := c.value()
		refusal := func() *Error { return numberError(param+"."+string(token), v, -100, 100) }
		switch f, err := strconv.ParseFloat(string(v), 64); {
		case k != '0' && k != 'f':
			return refusal()
		case err != nil, f < -100, f > 100:
			if err := c.addDeviation(param, refusal); err != nil {
				return err
			}
		}
	}
	return nil
}
