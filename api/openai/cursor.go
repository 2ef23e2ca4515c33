package openai

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A cursor walks over JSON that is known to be valid: a request is checked once, as a whole, and then only stepped
// through. On any other text a cursor may panic.
//
// The members of an object, or the elements of an array, are walked by
//
//	for c.enter(); c.more(); {
//		... step over one
//	}
type cursor struct {
	data    []byte
	at      int
	deepest int // how many objects and arrays were within one another in what value has stepped over

	way []step // to the object at hand: see in
	departures
}

// peek goes to what comes next, past white space, commas and colons, and returns its kind.
func (c *cursor) peek() jsontext.Kind {
	for {
		if k := kinds[c.data[c.at]]; k != 0 {
			return k
		}
		c.at++
	}
}

// kinds are the kinds of what begins with a byte.
var kinds = [256]jsontext.Kind{
	'{': '{', '}': '}', '[': '[', ']': ']', '"': '"', 't': 't', 'f': 'f', 'n': 'n',
	'-': '0', '0': '0', '1': '0', '2': '0', '3': '0', '4': '0', '5': '0', '6': '0', '7': '0', '8': '0', '9': '0',
}

// enter steps into the object or the array that comes next.
func (c *cursor) enter() {
	c.peek()
	c.at++
}

// more reports whether something follows in the object or the array, and otherwise steps out of it.
func (c *cursor) more() bool {
	if k := c.peek(); k != '}' && k != ']' {
		return true
	}
	c.at++
	return false
}

// str steps over a string, such as the name of a member, and returns what it stands for. It may share memory with the
// data.
func (c *cursor) str() []byte {
	inside, escaped := c.text()
	if !escaped {
		return inside
	}
	var b strings.Builder
	unescape(&b, inside)
	return []byte(b.String())
}

// text steps over a string, whose opening quote is next, and returns it without its quotes, and whether there are
// escapes in it.
func (c *cursor) text() (inside []byte, escaped bool) {
	start := c.at + 1
	for i, b := range c.data[start:min(len(c.data), start+shortText)] {
		if b == '"' {
			c.at = start + i + 1
			return c.data[start : start+i : start+i], false
		}
		if b == '\\' {
			break
		}
	}
	c.at = jsonwalk.String(c.data, c.at)
	inside = c.data[start : c.at-1 : c.at-1]
	return inside, bytes.IndexByte(inside, '\\') >= 0
}

// shortText is the length up to which one loop finds the end of a string and that there are no escapes in it.
const shortText = 24

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

// Unquote returns the string that a valid JSON string stands for, in memory of its own.
func Unquote(v jsontext.Value) string {
	c := cursor{data: v}
	return string(c.str())
}

// unescape writes the inside of a valid JSON string as what it stands for.
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
			if utf16.IsSurrogate(r) { // the other half follows: a lone one is no valid UTF-8
				r = utf16.DecodeRune(r, codeUnit(inside[2:]))
				inside = inside[6:]
			}
			b.WriteRune(r)
		default:
			b.WriteByte(escape)
		}
	}
}

// codeUnit reads the four digits that s begins with.
func codeUnit(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[:4]), 16, 16) // they are digits
	return rune(n)
}

// intern returns b as a string, without a copy where it is a word that most requests have.
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
