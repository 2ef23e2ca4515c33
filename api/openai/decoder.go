package openai

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A decoder reads the typed members of a body that was checked. It continues after a value of the wrong type, and
// stores the position of the first one.
type decoder struct {
	cursor
	strings strings.Builder // of all texts: one allocation, and one copy of each text
	wrong   int             // position of the first value of a wrong type; 0 is the body itself, which is an object
}

// err returns the client's error for the first value of a wrong type, or nil.
func (d *decoder) err() error {
	if d.wrong == 0 {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(d.data))
	for int(dec.InputOffset()) <= d.wrong {
		if _, err := dec.ReadToken(); err != nil {
			return notJSON(err)
		}
	}
	d.at = d.wrong
	param := pointerPath(dec.StackPointer())
	return CodeInvalidType.On(param, "Invalid type for '%s': got %s instead.", param, kindName(d.peek()))
}

// is reports whether the next value has the kind. It steps over any other value, which is wrong unless it is null.
func (d *decoder) is(kind jsontext.Kind) bool {
	got := d.peek()
	if got == kind {
		return true
	}
	if got != 'n' {
		d.mistype(d.at)
	}
	d.value()
	return false
}

func (d *decoder) mistype(at int) {
	if d.wrong == 0 {
		d.wrong = at
	}
}

// members iterates over the names of the next object. The loop body steps over the value.
func (d *decoder) members(yield func(name []byte) bool) {
	if !d.is('{') {
		return
	}
	for d.enter(); d.more(); {
		if !yield(d.str()) {
			return
		}
	}
}

// list reads an array.
func list[T any](d *decoder, to *[]T, read func(*T)) {
	if !d.is('[') {
		return
	}
	if *to == nil {
		*to = []T{}
	}
	for d.enter(); d.more(); {
		var zero T
		*to = append(*to, zero)
		read(&(*to)[len(*to)-1])
	}
}

// optional reads an object if there is one.
func optional[T any](d *decoder, to **T, read func(*T)) {
	if d.is('{') {
		*to = new(T)
		read(*to)
	}
}

// optionalOrText reads an object, or a string that replaces it and is one of its members.
func optionalOrText[T any](d *decoder, to **T, read func(*T), text func(*T) *string) {
	if d.peek() != '"' {
		optional(d, to, read)
		return
	}
	*to = new(T)
	d.string(text(*to))
}

func (d *decoder) string(s *string) {
	if !d.is('"') {
		return
	}
	inside, escaped := d.text()
	from := d.strings.Len()
	if escaped {
		unescape(&d.strings, inside)
	} else {
		d.strings.Write(inside)
	}
	*s = d.strings.String()[from:]
}

// ownString reads a string into its own memory, because it may be kept longer than the request.
func (d *decoder) ownString(s *string) {
	if d.is('"') {
		*s = string(d.str())
	}
}

// label reads a string that is probably a common word.
func (d *decoder) label(s *string) {
	if d.is('"') {
		*s = intern(d.str())
	}
}

// stringOrStrings reads a list that may be written as one string.
func (d *decoder) stringOrStrings(s *Strings) {
	if d.peek() != '"' {
		list(d, (*[]string)(s), d.string)
		return
	}
	*s = make(Strings, 1)
	d.string(&(*s)[0])
}

func (d *decoder) int(n **int64) {
	if !d.is('0') {
		return
	}
	v := d.value()
	parsed, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		d.mistype(d.at - len(v))
	}
	*n = &parsed
}

func (d *decoder) float(f **float64) {
	if !d.is('0') {
		return
	}
	v := d.value()
	parsed, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		d.mistype(d.at - len(v))
	}
	*f = &parsed
}

func (d *decoder) bool(b **bool) {
	if k := d.peek(); k == 't' || k == 'f' {
		v := k == 't'
		*b = &v
		d.value()
		return
	}
	d.is('t')
}

// raw returns a value as bytes, which share memory with the body.
func (d *decoder) raw(v *jsontext.Value) {
	if d.peek() == 'n' {
		d.value()
		return
	}
	*v = d.value()
}
