package guard

import (
	"unicode"
	"unicode/utf8"

	"github.com/modelgate/modelgate/internal/scan"
)

// standsAlone reports whether what stands at a part of a text is a word of its own. A single ideograph is one only
// beside something else than an ideograph: within others it may be a part of any word.
func standsAlone(text string, from, to int) bool {
	if !scan.IsBorder(text, from) || !scan.IsBorder(text, to) {
		return false
	}
	r, n := utf8.DecodeRuneInString(text[from:])
	if n != to-from || !unicode.Is(unicode.Han, r) {
		return true
	}
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	return !unicode.Is(unicode.Han, before) || !unicode.Is(unicode.Han, after)
}
