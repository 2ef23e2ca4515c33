package jsonwalk

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// space steps over white space. Mostly there is none.
func (r *Reader) space() {
	if r.at < len(r.data) && r.data[r.at] <= ' ' {
		r.spaces()
	}
}

func (r *Reader) spaces() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return
		}
	}
}

// scalar steps over a value that begins with b and is no object or array.
func (r *Reader) scalar(b byte) bool {
	switch b {
	case '"':
		return r.text()
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	}
	return r.number()
}

func (r *Reader) word(w string) bool {
	if len(r.data)-r.at < len(w) || string(r.data[r.at:r.at+len(w)]) != w {
		return false
	}
	r.at += len(w)
	return true
}

// text steps over a string.
func (r *Reader) text() bool {
	data, from := r.data, r.at+1
	at := from
	for most := min(len(data)-8, from+56); at <= most; at += 8 { // most texts are short
		m := unplain(binary.LittleEndian.Uint64(data[at:]))
		if m == 0 {
			continue
		}
		if at += bits.TrailingZeros64(m) / 8; data[at] == '"' {
			r.at = at + 1
			return true
		}
		break
	}
	return r.anyText(from, at)
}

// anyText steps over a string that may have more than plain characters, from a place on up to which it has not.
func (r *Reader) anyText(from, at int) bool {
	strict, ascii := r.names != nil, true
	for {
		at = plainEnd(r.data, at)
		if at >= len(r.data) {
			return false
		}
		switch b := r.data[at]; {
		case b == '"':
			r.at = at + 1
			return ascii || !strict || utf8.Valid(r.data[from:at])
		case b >= utf8.RuneSelf:
			ascii = false
			for at++; at < len(r.data) && r.data[at] >= utf8.RuneSelf; at++ {
			}
		case b == '\\':
			n := escape(r.data[at:], strict)
			if n == 0 {
				return false
			}
			at += n
		default:
			return false
		}
	}
}

// escape returns the length of the escape at the beginning of data, or 0. A pair of surrogates is
// one; only in strict JSON each has its other half.
func escape(data []byte, strict bool) int {
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
	case !strict || first < 0xd800 || first > 0xdfff:
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
func (r *Reader) number() bool {
	if r.Kind() == '-' {
		r.at++
	}
	zero := r.Kind() == '0'
	from := r.at
	if r.digits(); r.at == from || zero && r.at > from+1 {
		return false
	}
	if r.Kind() == '.' {
		r.at++
		if !r.digits() {
			return false
		}
	}
	if r.Kind()|0x20 == 'e' {
		r.at++
		if b := r.Kind(); b == '+' || b == '-' {
			r.at++
		}
		return r.digits()
	}
	return true
}

// digits steps over digits, and reports whether there is one.
func (r *Reader) digits() bool {
	from := r.at
	for r.at < len(r.data) && r.data[r.at]-'0' <= 9 {
		r.at++
	}
	return r.at > from
}
