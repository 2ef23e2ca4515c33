package openai

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A check says what is wrong with the value of the member that param names.
type check func(param string, v jsontext.Value) error

// maxInteger is the largest integer that every JSON reader holds exactly (RFC 8259, section 6).
const maxInteger = 1<<53 - 1

func integer(low, high int64) check {
	return func(param string, v jsontext.Value) error {
		if v.Kind() != '0' {
			return wrongType(param, "an integer", v.Kind())
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil && bytes.ContainsAny(v, ".eE"):
			return BadRequest(param, "invalid_type", "Invalid type for '%s': expected an integer, but got a decimal number instead.", param)
		case err == nil && n < low, err != nil && v[0] == '-':
			return BadRequest(param, "integer_below_min_value", "Invalid '%s': integer below minimum value. Expected a value >= %d, but got %s instead.", param, low, v)
		case err != nil, n > high:
			return BadRequest(param, "integer_above_max_value", "Invalid '%s': integer above maximum value. Expected a value <= %d, but got %s instead.", param, high, v)
		}
		return nil
	}
}

func number(low, high float64) check {
	return func(param string, v jsontext.Value) error {
		if v.Kind() != '0' {
			return wrongType(param, "a decimal", v.Kind())
		}
		f, err := strconv.ParseFloat(string(v), 64)
		switch {
		case err == nil && f < low:
			return BadRequest(param, "decimal_below_min_value", "Invalid '%s': decimal below minimum value. Expected a value >= %v, but got %s instead.", param, low, v)
		case err != nil, f > high:
			return BadRequest(param, "decimal_above_max_value", "Invalid '%s': decimal above maximum value. Expected a value <= %v, but got %s instead.", param, high, v)
		}
		return nil
	}
}

func boolean(param string, v jsontext.Value) error {
	if k := v.Kind(); k != 't' && k != 'f' {
		return wrongType(param, "a boolean", k)
	}
	return nil
}

func kind(what string, want jsontext.Kind) check {
	return func(param string, v jsontext.Value) error {
		if k := v.Kind(); k != want {
			return wrongType(param, what, k)
		}
		return nil
	}
}

func arrayOf(what string, want jsontext.Kind) check {
	return func(param string, v jsontext.Value) error {
		if k := v.Kind(); k != '[' {
			return wrongType(param, "an array", k)
		}
		if i, k := findOther(v, want); k != 0 {
			return wrongType(param+"["+strconv.Itoa(i)+"]", what, k)
		}
		return nil
	}
}

// findOther returns the index and the kind of the first element of an array that is not of the wanted kind. Where there is
// none, the kind is 0.
func findOther(array jsontext.Value, want jsontext.Kind) (int, jsontext.Kind) {
	c := cursor{data: array}
	c.enter()
	for i := 0; c.more(); i++ {
		if k := c.peek(); k != want {
			return i, k
		}
		c.value()
	}
	return 0, 0
}

func missing(param string) *Error {
	return BadRequest(param, "missing_required_parameter", "Missing required parameter: '%s'.", param)
}

func wrongType(param, want string, got jsontext.Kind) *Error {
	return BadRequest(param, "invalid_type", "Invalid type for '%s': expected %s, but got %s instead.", param, want, kindName(got))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}

// pointerPath turns a JSON pointer, /messages/0/content, into the form that OpenAI uses: messages[0].content.
func pointerPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil && b.Len() > 0 {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}
