package jsonwalk

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Valid reports whether data is one JSON value. Strings may have any bytes from 0x20 on, and names may stand twice.
func Valid(data []byte) bool {
	c := checker{data: data}
	return c.check() || jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Strict reports whether data is one JSON value, in valid UTF-8 and without a name that stands twice in an object.
func Strict(data []byte) bool {
	c := checker{data: data, strict: true}
	return c.check() || jsontext.Value(data).IsValid()
}

// A checker knows common JSON in a fifth of the time of the library, which decides about all that is not common: deep
// nesting, many names in open objects, escapes in names, and everything that is wrong.
type checker struct {
	data   []byte
	at     int
	strict bool
	depth  int
	open   [64]int32 // of each open object: how many names stand before its own; -1 for an array
	count  int
	names  [64]span // of open objects; only if strict
}

type span struct{ from, to int32 }

// check returns false unless all of the data is JSON.
func (c *checker) check() bool {
	if len(c.data) > 1<<30 {
		return false
	}
	c.space()
	for c.value() {
		for c.space(); ; c.space() {
			if c.depth == 0 {
				return c.at == len(c.data)
			}
			names := c.open[c.depth-1]
			b := c.peek()
			if b == ',' {
				c.at++
				c.space()
				if names >= 0 && !c.name(names) {
					return false
				}
				break
			}
			if b != '}' && b != ']' || (b == '}') != (names >= 0) {
				return false
			}
			c.leave(names)
		}
	}
	return false
}

// peek returns the next byte, or 0 at the end.
func (c *checker) peek() byte {
	if c.at < len(c.data) {
		return c.data[c.at]
	}
	return 0
}

func (c *checker) space() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case ' ', '\n', '\t', '\r':
			c.at++
		default:
			return
		}
	}
}

// value steps over a value that is a scalar or empty, or up to the first value in it.
func (c *checker) value() bool {
	for {
		switch b := c.peek(); b {
		case '"':
			return c.text()
		case 't':
			return c.word("true")
		case 'f':
			return c.word("false")
		case 'n':
			return c.word("null")
		case '{', '[':
			if c.depth == len(c.open) {
				return false
			}
			names := int32(-1)
			if b == '{' {
				names = int32(c.count)
			}
			c.open[c.depth] = names
			c.depth++
			c.at++
			c.space()
			if c.peek() == b+2 { // the closing one
				c.leave(names)
				return true
			}
			if b == '{' && !c.name(names) {
				return false
			}
		default:
			return c.number()
		}
	}
}

// leave steps out of an object or array.
func (c *checker) leave(names int32) {
	c.at++
	c.depth--
	if names >= 0 {
		c.count = int(names)
	}
}

func (c *checker) word(w string) bool {
	if len(c.data)-c.at < len(w) || string(c.data[c.at:c.at+len(w)]) != w {
		return false
	}
	c.at += len(w)
	return true
}

// name steps over a member's name and the colon. The names of its object begin at a place in names.
func (c *checker) name(first int32) bool {
	from := c.at
	if c.peek() != '"' || !c.text() {
		return false
	}
	if c.strict && !c.isNew(from, first) {
		return false
	}
	if c.peek() != ':' {
		if c.space(); c.peek() != ':' {
			return false
		}
	}
	c.at++
	c.space()
	return true
}

// isNew reports whether the name that ends here is its object's first of that text, and notes it.
func (c *checker) isNew(from int, first int32) bool {
	name := c.data[from:c.at]
	if c.count == len(c.names) || bytes.IndexByte(name, '\\') >= 0 {
		return false
	}
	for _, s := range c.names[first:c.count] {
		if string(c.data[s.from:s.to]) == string(name) {
			return false
		}
	}
	c.names[c.count] = span{int32(from), int32(c.at)}
	c.count++
	return true
}

// text steps over a string.
func (c *checker) text() bool {
	from := c.at + 1
	ascii := true
	for at := from; ; {
		at = plainEnd(c.data, at)
		if at >= len(c.data) {
			return false
		}
		switch b := c.data[at]; {
		case b == '"':
			c.at = at + 1
			return ascii || !c.strict || utf8.Valid(c.data[from:at])
		case b >= utf8.RuneSelf:
			ascii = false
			for at++; at < len(c.data) && c.data[at] >= utf8.RuneSelf; at++ {
			}
		case b == '\\':
			n := c.escape(c.data[at:])
			if n == 0 {
				return false
			}
			at += n
		default:
			return false
		}
	}
}

// escape returns the length of the escape at the beginning of data, or 0. In pairs of surrogates both count.
func (c *checker) escape(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	}
	first, ok := hex(data)
	switch {
	case !ok:
		return 0
	case !c.strict || first < 0xd800 || first > 0xdfff:
		return 6
	}
	if second, ok := hex(data[6:]); ok && first < 0xdc00 && second >= 0xdc00 && second <= 0xdfff {
		return 12
	}
	return 0
}

// hex reads an escape of four hexadecimal digits.
func hex(data []byte) (unit int, ok bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	for _, b := range data[2:6] {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			b = b | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		unit = unit<<4 | int(b)
	}
	return unit, true
}

// number steps over a number.
func (c *checker) number() bool {
	if c.peek() == '-' {
		c.at++
	}
	zero := c.peek() == '0'
	from := c.at
	if c.digits(); c.at == from || zero && c.at > from+1 {
		return false
	}
	if c.peek() == '.' {
		c.at++
		if from = c.at; !c.digits() {
			return false
		}
	}
	if c.peek()|0x20 == 'e' {
		c.at++
		if b := c.peek(); b == '+' || b == '-' {
			c.at++
		}
		return c.digits()
	}
	return true
}

// digits steps over digits, and reports whether there is one.
func (c *checker) digits() bool {
	from := c.at
	for c.at < len(c.data) && c.data[c.at]-'0' <= 9 {
		c.at++
	}
	return c.at > from
}
