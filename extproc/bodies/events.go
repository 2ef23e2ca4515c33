package bodies

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/sse"
)

// reassemble joins what the events of a stream bring in pieces, so that a rule sees the text as a reader does. It
// returns a JSON document with one member for each place in the events. Text below a member "delta", and "text", is
// joined. Of other places it has the last value. The events may be those of any client's dialect.
func reassemble(stream []byte) ([]byte, error) {
	a := assembly{at: map[string]int{}}
	for data := range sse.Data(stream) {
		a.events++
		a.event(bytes.TrimSpace(data))
	}
	return a.document()
}

type assembly struct {
	events int
	at     map[string]int // index in places
	places []*place
}

// A place is a member of events, by its path.
type place struct {
	path   string
	text   strings.Builder // joined
	raw    jsontext.Value  // another value, the last
	pieces bool            // it is joined
}

// maxDepth bounds the nesting of an event.
const maxDepth = 100

func (a *assembly) event(data []byte) {
	v := jsontext.Value(data)
	if !jsonwalk.Valid(data) { // such as [DONE]
		a.place("data").set(quoted(string(data)))
		return
	}
	prefix := ""
	if v.Kind() == '{' {
		for _, name := range []string{"type", "item_id", "output_index", "content_index", "index"} {
			if s := scalar(member(v, name)); s != "" {
				prefix += s + "."
			}
		}
	}
	a.value(prefix, v, false, 0)
}

// value takes a value at a path. Pieces are joined.
func (a *assembly) value(path string, v jsontext.Value, pieces bool, depth int) {
	switch kind := v.Kind(); {
	case depth < maxDepth && kind == '{':
		each(v, func(name string, v jsontext.Value) {
			a.value(join(path, name), v, pieces || name == "delta" || name == "text", depth+1)
		})
	case depth < maxDepth && kind == '[':
		i := 0
		each(v, func(_ string, v jsontext.Value) {
			at := strconv.Itoa(i)
			if v.Kind() == '{' {
				if s := scalar(member(v, "index")); s != "" {
					at = s
				}
			}
			a.value(join(path, at), v, pieces, depth+1)
			i++
		})
	case pieces && kind == '"':
		p := a.place(path)
		p.pieces = true
		p.text.WriteString(scalar(v))
	case kind != 'n':
		a.place(path).set(v)
	}
}

func (a *assembly) place(path string) *place {
	i, ok := a.at[path]
	if !ok {
		i = len(a.places)
		a.at[path], a.places = i, append(a.places, &place{path: path})
	}
	return a.places[i]
}

func (p *place) set(v jsontext.Value) { p.raw = v.Clone() }

func (a *assembly) document() ([]byte, error) {
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	tokens := []jsontext.Token{jsontext.BeginObject, jsontext.String("events"), jsontext.Int(int64(a.events))}
	for _, t := range tokens {
		if err := e.WriteToken(t); err != nil {
			return nil, err
		}
	}
	for _, p := range a.places {
		v := p.raw
		if p.pieces {
			v = quoted(p.text.String())
		}
		if err := e.WriteToken(jsontext.String(p.path)); err != nil {
			return nil, err
		}
		if err := e.WriteValue(v); err != nil {
			return nil, err
		}
	}
	err := e.WriteToken(jsontext.EndObject)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// each calls f with the members of an object, or the elements of an array, of valid JSON.
func each(v jsontext.Value, f func(name string, v jsontext.Value)) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for next := d.PeekKind(); next != '}' && next != ']' && next != 0; next = d.PeekKind() {
		name := ""
		if v.Kind() == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return
			}
			name = token.String()
		}
		element, err := d.ReadValue()
		if err != nil {
			return
		}
		f(name, element.Clone())
	}
}

// member returns a member of an object, or nil.
func member(v jsontext.Value, name string) (found jsontext.Value) {
	each(v, func(n string, v jsontext.Value) {
		if n == name {
			found = v
		}
	})
	return found
}

// scalar returns a string or a number as text, or "".
func scalar(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil && text == nil {
			return ""
		}
		return string(text)
	case '0':
		return string(v)
	}
	return ""
}

func quoted(s string) jsontext.Value {
	v, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD")) // it fails only for invalid UTF-8
	return v
}

func join(path, name string) string {
	if path == "" || strings.HasSuffix(path, ".") {
		return path + name
	}
	return path + "." + name
}
