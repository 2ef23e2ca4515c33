package jsonwalk

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at a time: a byte's high bit is set where the byte is of those searched. Bytes after the first of them
// may be wrong.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// unplain finds quotes, backslashes, control characters, and what is not ASCII.
func unplain(x uint64) uint64 { return marks(x) & highs }

// marks is unplain in high bits, with something else in the others.
func marks(x uint64) uint64 {
	return x | (x - 0x20*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)
}

// plainEnd returns the place of the first byte from a place on that is a quote, a backslash, a control character or
// not ASCII, or the end of the data.
func plainEnd(data []byte, at int) int {
	for rest := data[at:]; len(rest) >= 32; rest, at = rest[32:], at+32 {
		if (marks(binary.LittleEndian.Uint64(rest))|marks(binary.LittleEndian.Uint64(rest[8:]))|
			marks(binary.LittleEndian.Uint64(rest[16:]))|marks(binary.LittleEndian.Uint64(rest[24:])))&highs != 0 {
			break
		}
	}
	for ; len(data)-at >= 8; at += 8 {
		if m := unplain(binary.LittleEndian.Uint64(data[at:])); m != 0 {
			return at + bits.TrailingZeros64(m)/8
		}
	}
	for ; at < len(data); at++ {
		if b := data[at]; b < 0x20 || b == '"' || b == '\\' || b >= 0x80 {
			break
		}
	}
	return at
}

// quoteOrEscape returns the place of the first quote or backslash from a place on, or the end of the data.
func quoteOrEscape(data []byte, at int) int {
	for ; len(data)-at >= 8; at += 8 {
		x := binary.LittleEndian.Uint64(data[at:])
		quote, escape := x^'"'*ones, x^'\\'*ones
		if m := ((quote-ones)&^quote | (escape-ones)&^escape) & highs; m != 0 {
			return at + bits.TrailingZeros64(m)/8
		}
	}
	for ; at < len(data); at++ {
		if b := data[at]; b == '"' || b == '\\' {
			break
		}
	}
	return at
}
