package scan

import (
	"unicode"
	"unicode/utf8"
)

// IsWord reports whether a character is one of words: a letter or a digit of ASCII, or an underscore.
func IsWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// IsBorder reports whether a word may begin or end at a place of a text. It is as in Unicode's rules for words
// (UAX 29), simplified: letters, marks, digits and underscores go together in every script. Scripts that are written
// without spaces have a border between any two characters.
func IsBorder(text string, at int) bool {
	if at <= 0 || at >= len(text) {
		return true
	}
	if before, after := text[at-1], text[at]; before < utf8.RuneSelf && after < utf8.RuneSelf {
		return !IsWord(before) || !IsWord(after)
	}
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, _ := utf8.DecodeRuneInString(text[at:])
	if unicode.Is(unicode.M, after) { // a mark belongs to the character before it
		return false
	}
	return !IsWordRune(before) || !IsWordRune(after) || IsUnspaced(before) || IsUnspaced(after)
}

// IsWordRune reports whether a character is one of words, in any script.
func IsWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return IsWord(byte(r))
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd)
}

// IsUnspaced reports whether a character belongs to a script without spaces between words.
func IsUnspaced(r rune) bool {
	return r >= 0xE00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}
