package guard

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/modelgate/modelgate/internal/scan"
)

// maxUnescaped bounds how often escapes and references are taken away. Each time halves the backslashes of a text.
const maxUnescaped = 6

// A view is a text as its reader sees it: without escapes and references, with ordinary spaces, dashes, dots and
// digits, and without what is not seen. It knows where each of its bytes stands in the text.
type view struct {
	text string
	at   []int // of each byte, and the end
}

// plain returns the view of a text. It is false if that is the text itself.
func plain(text string) (view, bool) {
	v := view{text: text}
	if !isDressed(text) {
		return v, false
	}
	for range maxUnescaped {
		next := v.undress()
		if v.at != nil {
			for i, at := range next.at {
				next.at[i] = v.at[at]
			}
		}
		last := len(next.text) == len(v.text)
		if v = next; last || !strings.ContainsAny(v.text, `\&%`) {
			break
		}
	}
	return v, true
}

// mayDress are the bytes that may stand in another form in a view.
var mayDress = func() (may [256]bool) {
	for c := range may {
		may[c] = c >= utf8.RuneSelf || strings.IndexByte("\\*_`~-.&%+", byte(c)) >= 0
	}
	return may
}()

// isDressed reports whether the view of a text may differ from it.
func isDressed(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !mayDress[c] {
			continue
		}
		switch {
		case c == '\\':
			return true
		case c == '&' || c == '%':
			if _, n := reference(text[i:]); n > 0 {
				return true
			}
		case c == '*' || c == '_' || c == '`' || c == '~':
			if i > 0 && isNumeral(text[i-1]) || i+1 < len(text) && isNumeral(text[i+1]) {
				return true
			}
		case c == '+':
			if i > 0 && isDigit(text[i-1]) && i+1 < len(text) && isDigit(text[i+1]) {
				return true
			}
		case c == '-' || c == '.':
			if i > 1 && text[i-1] == ' ' && isDigit(text[i-2]) || i+2 < len(text) && text[i+1] == ' ' && isDigit(text[i+2]) {
				return true
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(text[i:])
			if plainRune(r) != r || i > 0 && isDigit(text[i-1]) && besideDigit(r) != r {
				return true
			}
			i += n - 1
		}
	}
	return false
}

// isNumeral reports whether Markdown beside a byte may be within a number or an address.
func isNumeral(c byte) bool { return isDigit(c) || c == '@' }

// undress takes one layer of escapes and everything else away.
func (v *view) undress() view {
	text := v.text
	out := make([]byte, 0, len(text))
	at := make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\\':
			r, n = escaped(text[i:])
			switch r {
			case '\\':
			case '_':
				r = underscore(out, text[i+n:])
			default:
				r = plainRune(r)
			}
		case r == '&', r == '%':
			if of, size := reference(text[i:]); size > 0 {
				r, n = plainRune(of), size
			}
		case r == utf8.RuneError && n == 1:
			out, at = append(out, text[i]), append(at, i)
			i++
			continue
		case r >= utf8.RuneSelf:
			if r = plainRune(r); r == '_' {
				r = underscore(out, text[i+n:])
			} else if len(out) > 0 && isDigit(out[len(out)-1]) {
				r = besideDigit(r)
			}
		case r == '*', r == '`', r == '~':
			r = -1
		case r == '_':
			r = underscore(out, text[i+1:])
		case r == '+' && len(out) > 0 && isDigit(out[len(out)-1]) && i+1 < len(text) && isDigit(text[i+1]):
			r = ' ' // as forms of HTML write it
		}
		if r >= '0' && r <= '9' {
			out, at = closeUp(out, at)
		}
		if r >= 0 {
			before := len(out)
			out = utf8.AppendRune(out, r)
			for range len(out) - before {
				at = append(at, i)
			}
		}
		i += n
	}
	return view{string(out), append(at, len(text))}
}

// escaped reads what a text begins with: an escape of JSON, of programs or of Markdown, or a backslash that is none.
func escaped(text string) (r rune, n int) {
	if len(text) < 2 {
		return '\\', 1
	}
	switch text[1] {
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r', 'b', 'f':
		return '\r', 2
	case '"', '/', '\\':
		return rune(text[1]), 2
	case 'u':
		n := strings.IndexByte(text[:min(len(text), longestEscape)], '}')
		if n > 3 && text[2] == '{' { // of JavaScript
			if r, ok := character(text[3:n], 16); ok {
				return r, n + 1
			}
		}
		r := hexRune(text)
		if r < 0 {
			return '\\', 1
		}
		if utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, hexRune(text[6:])); pair != utf8.RuneError {
				return pair, 12
			}
		}
		return r, 6
	case 'x':
		if r := hexByte(text[2:]); r >= 0 {
			return r, 4
		}
	case '-', '_', '.', '*', '@', '+', '`', '~', '(', ')', '[', ']', '#', '!':
		return rune(text[1]), 2
	}
	return '\\', 1
}

// hexByte reads two hexadecimal digits that are a character of ASCII which can be seen; -1 if a text begins with none.
func hexByte(text string) rune {
	if len(text) < 2 || !isHex(text[0]) || !isHex(text[1]) {
		return -1
	}
	code, err := strconv.ParseUint(text[:2], 16, 8)
	if err != nil || code < ' ' || code >= 0x7F {
		return -1
	}
	return rune(code)
}

// entities are references of HTML by name that are found in numbers and addresses.
var entities = map[string]rune{"nbsp": ' ', "NonBreakingSpace": ' ', "ThinSpace": ' ', "MediumSpace": ' ',
	"emsp13": ' ', "emsp14": ' ', "ensp": ' ', "emsp": ' ', "thinsp": ' ', "numsp": ' ', "puncsp": ' ',
	"hairsp": ' ', "shy": 0xAD, "zwnj": 0x200C, "zwj": 0x200D, "lrm": 0x200E, "rlm": 0x200F, "ZeroWidthSpace": 0x200B,
	"NoBreak": 0x2060, "commat": '@', "period": '.', "hyphen": '-', "dash": '-', "ndash": '-', "mdash": '-',
	"horbar": '-', "minus": '-', "lowbar": '_', "plus": '+', "amp": '&', "percnt": '%', "bsol": '\\',
	"middot": '.', "quot": '"'}

// longestEntity is the length of the longest reference that is read, in bytes.
const longestEntity = 18

// reference reads what a text begins with: a reference of HTML, or an octet of a URL. N is 0 if it is neither.
func reference(text string) (r rune, n int) {
	if text[0] == '%' {
		if r := hexByte(text[1:]); r >= 0 {
			return r, 3
		}
		return octets(text)
	}
	end := strings.IndexByte(text[:min(len(text), longestEntity)], ';')
	if end < 3 {
		return 0, 0
	}
	name := text[1:end]
	if name[0] != '#' {
		if r, known := entities[name]; known {
			return r, end + 1
		}
		return 0, 0
	}
	base, digits := 10, name[1:]
	if digits[0] == 'x' || digits[0] == 'X' {
		base, digits = 16, digits[1:]
	}
	r, ok := character(digits, base)
	if !ok {
		return 0, 0
	}
	return r, end + 1
}

// character reads the number of a character.
func character(digits string, base int) (rune, bool) {
	code, err := strconv.ParseUint(digits, base, 21)
	return rune(code), err == nil && code > 0 && utf8.ValidRune(rune(code))
}

// octets reads a character that is several octets of a URL; n is 0 if a text begins with none.
func octets(text string) (r rune, n int) {
	var b [utf8.UTFMax]byte
	for i := 0; i < len(b) && len(text) >= 3*i+3 && text[3*i] == '%'; i++ {
		code, err := strconv.ParseUint(text[3*i+1:3*i+3], 16, 8)
		if err != nil || code < utf8.RuneSelf {
			break
		}
		b[i] = byte(code)
		if r, size := utf8.DecodeRune(b[:i+1]); r != utf8.RuneError && size == i+1 {
			return r, 3 * size
		}
	}
	return 0, 0
}

// hexRune reads an escape such as \u00fc; -1 if the text begins with none.
func hexRune(text string) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	code, err := strconv.ParseUint(text[2:6], 16, 32)
	if err != nil {
		return -1
	}
	return rune(code)
}

// besideDigit returns what a character is right behind a digit: a mark on it is not seen, and the sign that makes
// vowels of Japanese long is a dash.
func besideDigit(r rune) rune {
	switch {
	case r >= 0x300 && r <= 0x36F, r >= 0x1AB0 && r <= 0x1AFF, r >= 0x20D0 && r <= 0x20F0:
		return -1
	case r == 0x30FC, r == 0xFF70:
		return '-'
	}
	return r
}

// underscore returns what an underscore is after some text and before some: emphasis, a dash between digits, or
// itself.
func underscore(before []byte, after string) rune {
	first := len(before) == 0 || !scan.IsWord(before[len(before)-1]) && before[len(before)-1] < utf8.RuneSelf
	after = strings.TrimLeft(after[:min(len(after), 8)], "_*`~")
	last := after == "" || !scan.IsWord(after[0]) && after[0] < utf8.RuneSelf
	switch {
	case first || last:
		return -1
	case isDigit(before[len(before)-1]) && isDigit(after[0]), endsInGroup(before), beginsWithGroup(after):
		return '-'
	}
	return '_'
}

// leastGroup is how many digits make a group of a number that a name may stand beside.
const leastGroup = 3

func endsInGroup(text []byte) bool {
	n := 0
	for n < min(len(text), leastGroup) && isDigit(text[len(text)-1-n]) {
		n++
	}
	return n == leastGroup
}

func beginsWithGroup(text string) bool {
	n := 0
	for n < min(len(text), leastGroup) && isDigit(text[n]) {
		n++
	}
	return n == leastGroup
}

// closeUp takes the spaces beside a dash or dot away that stands between the digits before and a digit that follows.
func closeUp(out []byte, at []int) ([]byte, []int) {
	from, mark := len(out), -1
	for from > 0 && len(out)-from < 4 && strings.IndexByte(" -.", out[from-1]) >= 0 {
		if from--; out[from] != ' ' {
			if mark >= 0 {
				return out, at
			}
			mark = from
		}
	}
	if mark < 0 || len(out)-from < 2 || from == 0 || !isDigit(out[from-1]) {
		return out, at
	}
	out[from], at[from] = out[mark], at[mark]
	return out[:from+1], at[:from+1]
}

// plainRune returns the ordinary character for one that looks like it, or -1 for one that is not seen.
func plainRune(r rune) rune {
	switch {
	case r < 0xA0:
		return r
	case r == 0x2800: // Braille without dots
		return ' '
	case r == 0xFE52:
		return '.'
	case r == 0xFE62:
		return '+'
	case r == 0xFE6B:
		return '@'
	case r == 0x24EA || r == 0x24FF:
		return '0'
	case r >= 0x2460 && r <= 0x2468: // in circles
		return '1' + r - 0x2460
	case r >= 0x2776 && r <= 0x277E:
		return '1' + r - 0x2776
	case r == 0xA0, r == 0x1680, r >= 0x2000 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
		return ' '
	case r == 0xAD, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F, r == 0xFEFF,
		r == 0x20E3, r == 0x34F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r >= 0x180B && r <= 0x180F,
		r == 0x3164, r >= 0xFE00 && r <= 0xFE0F, r == 0xFFA0, r >= 0xFFF0 && r <= 0xFFFB, r >= 0xE0000 && r <= 0xE0FFF,
		r >= 0x600 && r <= 0x605, r == 0x61C, r == 0x6DD, r == 0x70F, r == 0x890, r == 0x891, r == 0x8E2, r == 0x110BD,
		r == 0x110CD, r >= 0x13430 && r <= 0x1345F, r >= 0x1BCA0 && r <= 0x1BCA3, r >= 0x1D173 && r <= 0x1D17A:
		return -1 // what Unicode has readers ignore, and its controls of format
	case r >= 0x2010 && r <= 0x2015, r == 0x2212, r == 0x2043, r == 0xFE58, r == 0xFE63, r == 0x2796, r == 0x58A,
		r == 0x5BE, r == 0x1400, r == 0x1806, r == 0x2E17, r == 0x2E1A, r == 0x2E3A, r == 0x2E3B, r == 0x2E40, r == 0x2E5D,
		r == 0x301C, r == 0x3030, r == 0x30A0, r == 0xFE31, r == 0xFE32, r == 0xFF5E, r == 0x10D6E, r == 0x10EAD:
		return '-'
	case r == 0x203F, r == 0x2040, r == 0x2054, r == 0xFE33, r == 0xFE34, r >= 0xFE4D && r <= 0xFE4F:
		return '_'
	case r == 0xB7, r == 0x2022, r == 0x2024, r == 0x2027, r == 0x30FB, r == 0x3002, r == 0xFF61:
		return '.'
	case r >= 0xFF01 && r <= 0xFF5E:
		return r - 0xFEE0
	case r < 0x660 || r > 0x1FBF9 || !unicode.Is(unicode.Nd, r):
		return r
	}
	for _, in := range unicode.Nd.R16 {
		if rune(in.Lo) <= r && r <= rune(in.Hi) {
			return '0' + (r-rune(in.Lo))%10
		}
	}
	for _, in := range unicode.Nd.R32 {
		if rune(in.Lo) <= r && r <= rune(in.Hi) {
			return '0' + (r-rune(in.Lo))%10
		}
	}
	return r
}
