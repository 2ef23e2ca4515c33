package tokens

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	maxSample = 16 << 10
	block     = 512 // of a longer text, a block at every stride is kept
)

// A Sample keeps of a text that comes in pieces what its tokens can be counted by: all of it up to 16 KB, and of a
// longer one blocks that lie evenly over it. The zero Sample is empty. It is not safe for concurrent use.
type Sample struct {
	kept   []byte
	length int64 // of the text, in bytes
	sparse uint  // one of 1<<sparse blocks is kept
}

// Expect makes room for a text of up to n bytes at once.
func (s *Sample) Expect(n int) { s.kept = slices.Grow(s.kept, min(n, maxSample)) }

// Add appends a piece to the text. It keeps no reference to it.
func (s *Sample) Add(piece []byte) {
	if s.sparse == 0 && len(s.kept)+len(piece) <= maxSample {
		s.kept, s.length = append(s.kept, piece...), s.length+int64(len(piece))
		return
	}
	for len(piece) > 0 {
		n := min(len(piece), block-int(s.length%block))
		if s.length/block&(1<<s.sparse-1) == 0 {
			if len(s.kept) == maxSample {
				s.thin()
				continue
			}
			s.kept = append(s.kept, piece[:n]...)
		}
		s.length, piece = s.length+int64(n), piece[n:]
	}
}

// thin drops every second block. There is a whole number of them.
func (s *Sample) thin() {
	for i := range maxSample / block / 2 {
		copy(s.kept[i*block:(i+1)*block], s.kept[2*i*block:])
	}
	s.kept, s.sparse = s.kept[:maxSample/2], s.sparse+1
}

// Len returns the length of the text in bytes.
func (s *Sample) Len() int64 { return s.length }

// Count is the function Count for the text, at the cost of its kept part.
func (s *Sample) Count(vendor, model string) int64 { return s.count(vendor, model, s.kept) }

// CountJSON is Count for a text that is as in a JSON string: that it was cut there does no harm.
func (s *Sample) CountJSON(vendor, model string) int64 {
	if bytes.IndexByte(s.kept, '\\') < 0 {
		return s.count(vendor, model, s.kept)
	}
	return s.count(vendor, model, appendUnescaped(make([]byte, 0, len(s.kept)), s.kept))
}

func (s *Sample) count(vendor, model string, kept []byte) int64 {
	if len(kept) == 0 {
		return 0
	}
	c := counterOf(vendor, model)
	n := float64(c.count(string(kept))) * c.factor
	return int64(math.Round(n * float64(s.length) / float64(len(s.kept))))
}

// appendUnescaped appends what a part of a JSON string stands for. Escapes that are cut are left out.
func appendUnescaped(dst, s []byte) []byte {
	for len(s) > 0 {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(dst, s...)
		}
		if dst, s = append(dst, s[:n]...), s[n+1:]; len(s) == 0 {
			break
		}
		c := s[0]
		s = s[1:]
		if i := strings.IndexByte("nrtbf", c); i >= 0 {
			dst = append(dst, "\n\r\t\b\f"[i])
		} else if c != 'u' {
			dst = append(dst, c)
		} else {
			var r rune
			if r, s = unit(s); utf16.IsSurrogate(r) && bytes.HasPrefix(s, []byte(`\u`)) {
				var low rune
				low, s = unit(s[2:])
				r = utf16.DecodeRune(r, low)
			}
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// unit reads the four digits of an escape, and returns the rest.
func unit(s []byte) (rune, []byte) {
	n := min(4, len(s))
	r, err := strconv.ParseUint(string(s[:n]), 16, 16)
	if err != nil {
		return utf8.RuneError, s
	}
	return rune(r), s[n:]
}
