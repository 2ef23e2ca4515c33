package respcache

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// The last text of a request is compared if it has so many characters: a shorter one means too little by itself.
const (
	minCompared = 10
	maxCompared = 8000
)

// A span is where a text is in a body, with its quotes.
type span struct{ from, to int }

// lastText returns the text of the last message of a request, if that is a user's and has nothing but text, and the
// body without it. The body is valid JSON of an operation that answers with text, in any dialect.
func lastText(body []byte) (text string, rest []byte, ok bool) {
	w := lastWalk{body: body}
	w.request()
	if w.odd || len(w.texts) == 0 {
		return "", nil, false
	}
	parts := make([]string, len(w.texts))
	rest = make([]byte, 0, len(body))
	from := 0
	for i, s := range w.texts {
		parts[i] = openai.Unquote(body[s.from:s.to])
		rest = append(append(rest, body[from:s.from]...), `""`...)
		from = s.to
	}
	text = strings.Join(parts, "\n")
	if n := utf8.RuneCountInString(text); n < minCompared || n > maxCompared {
		return "", nil, false
	}
	return text, append(rest, body[from:]...), true
}

// A lastWalk goes to the last text of a body.
type lastWalk struct {
	body  []byte
	texts []span
	odd   bool // the body has something else in place of the text
}

// members calls f for each member of the object at a position. A name that is written in an uncommon way makes the
// body odd: what a provider reads would not be what is seen here.
func (w *lastWalk) members(at int, f func(name string, from, to int)) {
	if w.body[at] != '{' {
		w.odd = true
		return
	}
	jsonwalk.Object(w.body, at, func(name, nameEnd, start int) int {
		end := jsonwalk.Value(w.body, start)
		raw := w.body[name+1 : nameEnd-1]
		w.odd = w.odd || bytes.IndexByte(raw, '\\') >= 0
		f(string(raw), start, end)
		return end
	})
}

// last returns the last element of the array at a position.
func (w *lastWalk) last(at int) (from int, ok bool) {
	jsonwalk.Array(w.body, at, func(start int) int {
		from, ok = start, true
		return jsonwalk.Value(w.body, start)
	})
	return from, ok
}

func (w *lastWalk) request() {
	lists := 0
	w.members(jsonwalk.Between(w.body, 0), func(name string, from, to int) {
		switch name {
		case "messages", "input", "contents":
			lists++
			switch {
			case w.body[from] == '"' && name == "input":
				w.texts = []span{{from, to}}
			case w.body[from] == '[':
				w.message(from)
			default:
				w.odd = true
			}
		}
	})
	w.odd = w.odd || lists != 1
}

// message reads the last message of the list at a position.
func (w *lastWalk) message(list int) {
	at, ok := w.last(list)
	if !ok {
		w.odd = true
		return
	}
	roles, contents := 0, 0
	w.members(at, func(name string, from, to int) {
		switch name {
		case "role":
			roles++
			w.odd = w.odd || string(w.body[from:to]) != `"user"`
		case "content", "parts":
			contents++
			w.content(from, to)
		}
	})
	w.odd = w.odd || roles != 1 || contents != 1
}

// content reads the content of a message: a text, or parts that all are texts.
func (w *lastWalk) content(from, to int) {
	switch w.body[from] {
	case '"':
		w.texts = append(w.texts, span{from, to})
	case '[':
		jsonwalk.Array(w.body, from, func(start int) int {
			w.part(start)
			return jsonwalk.Value(w.body, start)
		})
	default:
		w.odd = true
	}
}

func (w *lastWalk) part(at int) {
	texts := 0
	w.members(at, func(name string, from, to int) {
		switch name {
		case "type":
			kind := string(w.body[from:to])
			w.odd = w.odd || kind != `"text"` && kind != `"input_text"`
		case "text":
			texts++
			w.odd = w.odd || w.body[from] != '"'
			w.texts = append(w.texts, span{from, to})
		}
	})
	w.odd = w.odd || texts != 1
}

// numbers returns the digits of a text, in their order, with a space between two numbers. Texts with other numbers are
// never similar, although models find them close.
func numbers(text string) []byte {
	var found []byte
	inside := false
	for _, r := range text {
		if !unicode.IsNumber(r) {
			inside = false
			continue
		}
		if !inside && len(found) > 0 {
			found = append(found, ' ')
		}
		inside = true
		found = utf8.AppendRune(found, r)
	}
	return found
}
