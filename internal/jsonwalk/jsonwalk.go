// Package jsonwalk steps through JSON that is known to be valid: a body is checked once, as a whole, and from then on
// only the places of its members are looked for.
//
// It is ours because what a request costs is mostly this. Libraries either check again what was checked, or decode
// what is only passed on. Each function takes a place and returns the one behind. On a text that is not valid a
// function may return a place that means nothing, or panic, except for [String].
//
// What comes in pieces, and has to be read before its end is there, is not for this package: see extproc/metering.
package jsonwalk

import "bytes"

// Between steps over white space, commas and colons.
func Between(data []byte, at int) int {
	for ; ; at++ {
		switch data[at] {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return at
		}
	}
}

// shortString is the length up to which looking at each byte finds the end of a string faster than a search. Most are
// shorter.
const shortString = 48

// String steps over a string, from its opening quote. Of a string that does not end it returns the end of the data.
func String(data []byte, at int) int {
	for short := min(at+shortString, len(data)); at+1 < short; {
		at++
		switch data[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	for at++; at < len(data); at++ {
		n := bytes.IndexByte(data[at:], '"')
		if n < 0 {
			break
		}
		at += n
		escapes := at
		for data[escapes-1] == '\\' {
			escapes--
		}
		if (at-escapes)%2 == 0 {
			return at + 1
		}
	}
	return len(data)
}

// Value steps over a value of any kind.
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

// Scalar steps over a number, true, false or null.
func Scalar(data []byte, at int) int {
	for ; at < len(data); at++ {
		switch data[at] {
		case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
			return at
		}
	}
	return at
}

// Array calls f for the elements of the array that begins at a place. What f is given is where an element begins, and
// what it returns is the place behind. So does Array.
func Array(data []byte, at int, f func(start int) (end int)) (end int) {
	for at = Between(data, at+1); data[at] != ']'; {
		at = Between(data, f(at))
	}
	return at + 1
}

// Object calls f for the members of the object that begins at a place. What f is given are the places of the name and
// of where the value begins, and what it returns is the place behind the value. Object returns that behind the object.
func Object(data []byte, at int, f func(name, nameEnd, start int) (end int)) (end int) {
	for at = Between(data, at+1); data[at] != '}'; {
		nameEnd := String(data, at)
		at = Between(data, f(at, nameEnd, Between(data, nameEnd)))
	}
	return at + 1
}
