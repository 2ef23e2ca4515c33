package guard

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/modelgate/modelgate/internal/scan"
)

const (
	// minSecret is how long encrypted data are at least, in bytes of base64.
	minSecret = 40
	// maxDigits is how many digits follow one another in base64 at most: numbers that people write have more.
	maxDigits = 11
	// oftenControl is how many bytes of a text there are for a control character, at least. Data that are no text have
	// one in ten.
	oftenControl = 50
)

// hasSecretForm reports whether a string has the form of data that only a vendor can read.
func hasSecretForm(text string) bool {
	if len(text) < minSecret || hasLongNumber(text) {
		return false
	}
	var upper, lower bool
	for i := range len(text) {
		c := text[i]
		if !scan.IsWord(c) && strings.IndexByte("+/=-", c) < 0 {
			return false
		}
		upper, lower = upper || isCapital(c), lower || c >= 'a' && c <= 'z'
	}
	return upper && lower
}

// hasLongNumber reports whether more digits follow one another than in data.
func hasLongNumber(text string) bool {
	run := 0
	for i := range len(text) {
		if !isDigit(text[i]) {
			run = 0
		} else if run++; run > maxDigits {
			return true
		}
	}
	return false
}

// unpack reads base64, in either alphabet, with or without padding, with white space as some readers allow.
func unpack(text string) ([]byte, bool) {
	if strings.IndexByte(text, '%') >= 0 {
		if plain, err := url.PathUnescape(text); err == nil {
			text = plain
		}
	}
	if strings.ContainsAny(text, " \t\r\n") {
		text = strings.Join(strings.Fields(text), "")
	}
	text = strings.TrimRight(text, "=")
	coding := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		coding = base64.RawURLEncoding
	}
	b, err := coding.DecodeString(text)
	return b, err == nil && len(b) > 0
}

// magic are the beginnings of files that have no text of their own.
var magic = []string{"\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF", "BM", "II*\x00", "MM\x00*", "%PDF", "ID3",
	"\xff\xfb", "\xff\xf3", "\xff\xf2", "\xff\xf1", "\xff\xf9", "OggS", "fLaC", "\x1aE\xdf\xa3", "PK\x03\x04",
	"\xd0\xcf\x11\xe0", "\x00\x00\x01\x00", "\x00\x00\x01\xba", "\x00\x00\x01\xb3", "#!AMR", "FORM", "\x1f\x8b"}

// isBinary reports whether data are a file that is no text.
func isBinary(b []byte) bool {
	if bytes.HasPrefix(b[min(len(b), 4):], []byte("ftyp")) {
		return true
	}
	for _, m := range magic {
		if bytes.HasPrefix(b, []byte(m)) {
			return true
		}
	}
	return false
}

// isTextual reports whether a media type is of texts.
func isTextual(media string) bool {
	media = strings.ToLower(media)
	for _, of := range []string{"text/", "json", "xml", "csv", "yaml", "html", "javascript", "form-urlencoded",
		"markdown"} {
		if strings.Contains(media, of) && !strings.Contains(media, "officedocument") {
			return true
		}
	}
	return false
}

// textOf returns the text that data are, if they are one: UTF-8, UTF-16, or what has few control characters, in an
// encoding of bytes.
func textOf(b []byte, textual bool) (string, bool) {
	if order := utf16Order(b); order != nil {
		units := make([]uint16, 0, len(b)/2)
		for i := 0; i+1 < len(b); i += 2 {
			units = append(units, order.Uint16(b[i:]))
		}
		return strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff"), true
	}
	if textual {
		return string(b), true
	}
	control := 0
	for _, c := range b {
		if c < ' ' && strings.IndexByte("\n\r\t\f", c) < 0 {
			control++
		}
	}
	return string(b), control <= len(b)/oftenControl || utf8.Valid(b)
}

// utf16Order returns the order of bytes of a text in UTF-16, or nil.
func utf16Order(b []byte) binary.ByteOrder {
	head := b[:min(len(b), 64)]
	if len(head) < 4 {
		return nil
	}
	var zeros [2]int
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch {
	case head[0] == 0xff && head[1] == 0xfe, zeros[0] == 0 && zeros[1] > len(head)/4:
		return binary.LittleEndian
	case head[0] == 0xfe && head[1] == 0xff, zeros[1] == 0 && zeros[0] > len(head)/4:
		return binary.BigEndian
	}
	return nil
}

// data judges a string that stands where a dialect has data, of a media type if that is known. What is no data is a
// text.
func (w *walk) data(ctx context.Context, text, media string, at spot) (string, bool, error) {
	head, payload, isURI := "", text, false
	if len(text) > 5 && strings.EqualFold(text[:5], "data:") {
		if head, payload, isURI = strings.Cut(text, ","); isURI {
			media += " " + head
		}
	}
	if isURI {
		if _, found, err := w.judgeOnly(ctx, head, inFixed, at); found || err != nil {
			return w.judge(ctx, text, inText, at)
		}
		head += ","
	} else {
		head, payload = "", text
	}
	if isURI && !strings.Contains(strings.ToLower(strings.ReplaceAll(head, " ", "")), ";base64") {
		plain, err := url.PathUnescape(payload)
		if err != nil {
			return w.judge(ctx, text, inText, at)
		}
		out, changed, err := w.judge(ctx, plain, inText, at)
		if changed {
			text = head + url.PathEscape(out)
		}
		return text, changed, err
	}
	b, ok := unpack(payload)
	if !ok {
		kind := inText
		if at.kind() == inFixed {
			kind = inFixed
		}
		return w.judge(ctx, text, kind, at)
	}
	binary := isBinary(b)
	if inner, is := textOf(b, isTextual(media)); is && (isTextual(media) || !bytes.HasPrefix(b, []byte("%PDF-"))) {
		out, changed, err := w.judge(ctx, inner, inText, at)
		if changed {
			return head + base64.StdEncoding.EncodeToString([]byte(out)), true, err
		}
		if err != nil || utf8.ValidString(inner) { // otherwise it may be no text
			return text, false, err
		}
	}
	if !binary && (at.name != "embedding" || len(b)%4 != 0) {
		if out, changed, err := w.judge(ctx, text, inText, at); changed || err != nil {
			return out, changed, err
		}
	}
	if found, err := w.numbers(ctx, payload, at); found || err != nil {
		return "", found, err
	}
	return text, false, nil
}

// numbers reports whether rules mask a long number in data. Data has no borders of words.
func (w *walk) numbers(ctx context.Context, text string, at spot) (found bool, err error) {
	for from := 0; from < len(text) && !found && err == nil; from++ {
		to := from
		for to < len(text) && isDigit(text[to]) {
			to++
		}
		if to-from > maxDigits {
			_, found, err = w.judgeOnly(ctx, text[from:to], inFixed, at)
		}
		from = to
	}
	return found, err
}
