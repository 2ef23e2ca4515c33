package openai

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A check steps over the value of the member param, and returns an error if it is invalid.
type check func(param string, c *cursor) error

// maxInteger is the largest integer that every JSON reader holds exactly (RFC 8259, section 6).
const maxInteger = 1<<53 - 1

func integer(low, high int64) check {
	return func(param string, c *cursor) error {
		if k := c.peek(); k != '0' {
			return WrongType(param, "an integer", k)
		}
		v := c.value()
		n, err := strconv.ParseInt(string(v), 10, 64)
		switch {
		case err != nil && bytes.ContainsAny(v, ".eE"):
			return CodeInvalidType.On(param,
				"Invalid type for '%s': expected an integer, but got a decimal number instead.", param)
		case err == nil && n < low, err != nil && v[0] == '-':
			return CodeIntegerBelowMinValue.On(param,
				"Invalid '%s': integer below minimum value. Expected a value >= %d, but got %s instead.", param, low, v)
		case err != nil, n > high:
			return CodeIntegerAboveMaxValue.On(param,
				"Invalid '%s': integer above maximum value. Expected a value <= %d, but got %s instead.", param, high, v)
		}
		return nil
	}
}

func number(low, high float64) check {
	return func(param string, c *cursor) error {
		if k := c.peek(); k != '0' {
			return WrongType(param, "a decimal", k)
		}
		v := c.value()
		if f, err := strconv.ParseFloat(string(v), 64); err != nil || f < low || f > high {
			return numberError(param, v, low, high)
		}
		return nil
	}
}

// numberError returns the error for a value that is not a number in the range.
func numberError(param string, v jsontext.Value, low, high float64) *Error {
	switch f, err := strconv.ParseFloat(string(v), 64); {
	case v.Kind() != '0':
		return WrongType(param, "a decimal", v.Kind())
	case err == nil && f < low:
		return CodeDecimalBelowMinValue.On(param,
			"Invalid '%s': decimal below minimum value. Expected a value >= %v, but got %s instead.", param, low, v)
	default:
		return CodeDecimalAboveMaxValue.On(param,
			"Invalid '%s': decimal above maximum value. Expected a value <= %v, but got %s instead.", param, high, v)
	}
}

// ranged checks a number with OpenAI's range. A value outside is a deviation if it is in the range any.
func ranged(any, openai check) check {
	return func(param string, c *cursor) error {
		start := *c
		err := openai(param, c)
		if err == nil || c.at == start.at {
			return err
		}
		again := start
		if err := any(param, &again); err != nil {
			return err
		}
		refusal, _ := errors.AsType[*Error](err)
		return c.addDeviation(param, func() *Error { return refusal })
	}
}

func rangedInteger(low, high int64) check {
	return ranged(integer(-maxInteger, maxInteger), integer(low, high))
}

func rangedNumber(low, high float64) check {
	return ranged(number(-math.MaxFloat64, math.MaxFloat64), number(low, high))
}

func boolean(param string, c *cursor) error {
	if k := c.peek(); k != 't' && k != 'f' {
		return WrongType(param, "a boolean", k)
	}
	c.value()
	return nil
}

func kind(what string, want jsontext.Kind) check {
	return func(param string, c *cursor) error {
		if k := c.peek(); k != want {
			return WrongType(param, what, k)
		}
		c.value()
		return nil
	}
}

func arrayOf(what string, want jsontext.Kind) check {
	return func(param string, c *cursor) error {
		if k := c.peek(); k != '[' {
			return WrongType(param, "an array", k)
		}
		i := 0
		for c.enter(); c.more(); i++ {
			if k := c.peek(); k != want {
				return WrongType(param+"["+strconv.Itoa(i)+"]", what, k)
			}
			if i == maxElements {
				return tooLong(param, maxElements)
			}
			c.value()
		}
		return nil
	}
}

func missing(param string) *Error {
	return CodeMissingRequiredParameter.On(param, "Missing required parameter: '%s'.", param)
}

func emptyArray(param string) *Error {
	return CodeEmptyArray.On(param,
		"Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

// WrongType returns the 400 for a member of the wrong type.
func WrongType(param, want string, got jsontext.Kind) *Error {
	return CodeInvalidType.On(param, "Invalid type for '%s': expected %s, but got %s instead.", param, want,
		kindName(got))
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

// pointerPath converts a JSON pointer, /messages/0/content, to OpenAI's form: messages[0].content.
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
