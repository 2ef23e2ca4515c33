package openai

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A cursor steps over valid JSON: a request is checked once, as a whole, and later only stepped through. For invalid
// JSON a cursor may panic.
//
// This loop visits the members of an object, or the elements of an array:
//
//	for c.enter(); c.more(); {
//		... step over one
//	}
type cursor struct {
	data    []byte
	at      int
	deepest int // the deepest nesting that value has stepped over

	path []step // path to the current object: see in
	deviations
}

// peek skips white space, commas and colons, and returns the kind of the next value.
func (c *cursor) peek() jsontext.Kind {
	for {
		if k := kinds[c.data[c.at]]; k != 0 {
			return k
		}
		c.at++
	}
}

// kinds has the kind of a value by its first byte.
var kinds = [256]jsontext.Kind{
	'{': '{', '}': '}', '[': '[', ']': ']', '"': '"', 't': 't', 'f': 'f', 'n': 'n',
	'-': '0', '0': '0', '1': '0', '2': '0', '3': '0', '4': '0', '5': '0', '6': '0', '7': '0', '8': '0', '9': '0',
}

// enter steps into the next object or array.
func (c *cursor) enter() {
	c.peek()
	c.at++
}

// more reports whether the object or the array has more values; if not, it steps out of it.
func (c *cursor) more() bool {
	if k := c.peek(); k != '}' && k != ']' {
		return true
	}
	c.at++
	return false
}

// str steps over a string, such as a member's name, and returns it unquoted. It may share memory with the data.
func (c *cursor) str() []byte {
	inside, escaped := c.text()
	if !escaped {
		return inside
	}
	var b strings.Builder
	unescape(&b, inside)
	return []byte(b.String())
}

// text steps over the string at the cursor, and returns it without quotes, and whether it has escapes.
func (c *cursor) text() (inside []byte, escaped bool) {
	start := c.at + 1
	c.at, escaped = jsonwalk.Text(c.data, c.at)
	return c.data[start : c.at-1 : c.at-1], escaped
}

// value steps over a value and returns it. It shares memory with the data.
func (c *cursor) value() jsontext.Value {
	k := c.peek()
	start := c.at
	for depth := 0; ; k = c.peek() {
		switch k {
		case '"':
			c.text()
		case '{', '[':
			depth++
			c.deepest = max(c.deepest, depth)
			c.at++
		case '}', ']':
			depth--
			c.at++
		case 't', 'n':
			c.at += len("true")
		case 'f':
			c.at += len("false")
		default:
			c.at = jsonwalk.Scalar(c.data, c.at)
		}
		if depth == 0 {
			return c.data[start:c.at:c.at]
		}
	}
}

// Unquote returns the text of a valid JSON string, in new memory.
func Unquote(v jsontext.Value) string {
	c := cursor{data: v}
	return string(c.str())
}

// unescape writes the text inside of a valid JSON string.
func unescape(b *strings.Builder, inside []byte) {
	for {
		i := bytes.IndexByte(inside, '\\')
		if i < 0 {
			b.Write(inside)
			return
		}
		b.Write(inside[:i])
		escape := inside[i+1]
		inside = inside[i+2:]
		switch escape {
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r := codeUnit(inside)
			inside = inside[4:]
			if utf16.IsSurrogate(r) { // the other half follows, because a lone one is not valid UTF-8
				r = utf16.DecodeRune(r, codeUnit(inside[2:]))
				inside = inside[6:]
			}
			b.WriteRune(r)
		default:
			b.WriteByte(escape)
		}
	}
}

// codeUnit reads the four hex digits at the beginning of s.
func codeUnit(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[:4]), 16, 16) // they are digits
	return rune(n)
}

// intern returns b as a string, without a copy if it is a common word.
func intern(b []byte) string {
	switch string(b) {
	case "model":
		return "model"
	case "messages":
		return "messages"
	case "stream":
		return "stream"
	case "stream_options":
		return "stream_options"
	case "max_tokens":
		return "max_tokens"
	case "max_completion_tokens":
		return "max_completion_tokens"
	case "temperature":
		return "temperature"
	case "top_p":
		return "top_p"
	case "tools":
		return "tools"
	case "tool_choice":
		return "tool_choice"
	case "system":
		return "system"
	case "user":
		return "user"
	case "assistant":
		return "assistant"
	case "tool":
		return "tool"
	case "text":
		return "text"
	case "image_url":
		return "image_url"
	case "function":
		return "function"
	case "auto":
		return "auto"
	}
	return string(b)
}
