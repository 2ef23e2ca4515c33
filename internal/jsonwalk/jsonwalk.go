// Package jsonwalk checks JSON and steps through it: a body is checked once, as a whole, by [Valid] or [Strict], and
// later only the positions of its members are searched.
//
// No library does this, and it is most of the cost of a request. Libraries either check the text again, or decode
// values that are only forwarded. Each other function takes the position of an item and returns the position after it.
// For invalid JSON a function may return any position, or panic, except for [String].
//
// It needs the whole text. For JSON in pieces see extproc/metering.
package jsonwalk

import "bytes"

// Between skips white space, commas and colons.
func Between(data []byte, at int) int {
	for ; ; at++ {
		switch data[at] {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return at
		}
	}
}

// shortString is the length up to which words find the end of a string faster than a search. Most strings are shorter.
const shortString = 64

// String skips a string, from its opening quote. If the string does not end, it returns the end of the data.
func String(data []byte, at int) int {
	short := data[:min(at+1+shortString, len(data))]
	for at++; ; at += 2 {
		if at = quoteOrEscape(short, at); at >= len(short) {
			break
		}
		if data[at] == '"' {
			return at + 1
		}
	}
	for begin := at; at < len(data); at++ {
		n := bytes.IndexByte(data[at:], '"')
		if n < 0 {
			break
		}
		at += n
		escapes := at
		for escapes > begin && data[escapes-1] == '\\' {
			escapes--
		}
		if (at-escapes)%2 == 0 {
			return at + 1
		}
	}
	return len(data)
}

// Text is String, and reports whether the string has escapes.
func Text(data []byte, at int) (end int, escaped bool) {
	short := data[:min(at+1+shortString, len(data))]
	if end = quoteOrEscape(short, at+1); end < len(short) && data[end] == '"' {
		return end + 1, false
	}
	end = String(data, at)
	return end, bytes.IndexByte(data[at:end], '\\') >= 0
}

// Value skips a value of any kind.
func Value(data []byte, at int) int {
	for depth := 0; ; {
		switch data[at] {
		case '"':
			at = String(data, at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		default:
			at = Scalar(data, at)
		}
		if depth == 0 {
			return at
		}
		at = Between(data, at)
	}
}

// Scalar skips a number, true, false or null.
func Scalar(data []byte, at int) int {
	for ; at < len(data); at++ {
		switch data[at] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return at
		}
	}
	return at
}

// Array calls f for each element of the array at a position. The function f gets the beginning of an element and
// returns the position after it. Array returns the position after the array.
func Array(data []byte, at int, f func(start int) (end int)) (end int) {
	for at = Between(data, at+1); data[at] != ']'; {
		at = Between(data, f(at))
	}
	return at + 1
}

// Object calls f for each member of the object at a position. The function f gets the positions of the name and the
// beginning of the value, and returns the position after the value. Object returns the position after the object.
func Object(data []byte, at int, f func(name, nameEnd, start int) (end int)) (end int) {
	for at = Between(data, at+1); data[at] != '}'; {
		nameEnd := String(data, at)
		at = Between(data, f(at, nameEnd, Between(data, nameEnd)))
	}
	return at + 1
}
