package jsonwalk

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Valid reports whether data is one JSON value. Strings may have any bytes from 0x20 on, and names may stand twice.
func Valid(data []byte) bool {
	r := NewReader(data)
	r.Value()
	return r.End()
}

// Strict reports whether data is one JSON value, in valid UTF-8 and without a name that stands twice in an object.
func Strict(data []byte) bool {
	var n names
	r := NewReader(data)
	r.names = &n
	r.Value()
	return r.End()
}

// A Reader steps through JSON and checks it as Valid does, in one pass. What was read counts only if End reports true:
// a mistake ends the data for every later step.
type Reader struct {
	data  []byte
	at    int
	wrong bool
	names *names // if it checks as Strict does
}

// NewReader returns a reader that stands before the value in data.
func NewReader(data []byte) Reader {
	r := Reader{data: data}
	r.space()
	return r
}

// At returns the place of the reader: where a value begins, or ends after it was stepped over.
func (r *Reader) At() int { return r.at }

// Kind returns the first byte of the value that begins here, or 0 at the end.
func (r *Reader) Kind() byte {
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

// End reports whether everything was JSON, and nothing is left.
func (r *Reader) End() bool {
	r.space()
	return !r.wrong && r.at == len(r.data)
}

// Object steps over an object. Before each value it calls f, which steps over the value. The function f gets the
// positions of the name.
func (r *Reader) Object(f func(name, nameEnd int)) {
	for more := r.enter('{', '}'); more; more = r.next() {
		name := r.at
		nameEnd := r.name()
		if nameEnd == 0 {
			r.fail()
			return
		}
		f(name, nameEnd)
	}
	r.leave('}')
}

// Array steps over an array. Before each element it calls f, which steps over the element.
func (r *Reader) Array(f func()) {
	for more := r.enter('[', ']'); more; more = r.next() {
		f()
	}
	r.leave(']')
}

// enter steps into an object or array, and reports whether anything is in it.
func (r *Reader) enter(opening, closing byte) bool {
	if r.Kind() != opening {
		return false
	}
	r.at++
	r.space()
	return r.Kind() != closing
}

// next steps over the comma after a value, and reports whether there is one.
func (r *Reader) next() bool {
	r.space()
	if r.Kind() != ',' {
		return false
	}
	r.at++
	r.space()
	return true
}

// leave steps out of an object or array. The opening one, before which enter has stayed, is no closing one.
func (r *Reader) leave(closing byte) {
	if r.Kind() != closing {
		r.fail()
		return
	}
	r.at++
}

func (r *Reader) fail() { r.wrong, r.at = true, len(r.data) }

// Value steps over a value and returns it. It is nil at a mistake.
func (r *Reader) Value() []byte {
	start := r.at
	if !r.common() && !r.rare(start) {
		r.fail()
		return nil
	}
	return r.data[start:r.at]
}

// rare steps over a value by the library, which knows what common does not.
func (r *Reader) rare(start int) bool {
	lax := r.names == nil
	d := jsontext.NewDecoder(bytes.NewBuffer(r.data[start:]), jsontext.AllowInvalidUTF8(lax),
		jsontext.AllowDuplicateNames(lax))
	_, err := d.ReadValue()
	r.at = start + int(d.InputOffset())
	return err == nil
}

// common steps over a value, in a fifth of the library's time. It returns false at a mistake, and at what is not
// common: deep nesting, many names in open objects, and escapes in names that must not stand twice.
func (r *Reader) common() bool {
	var objects uint64 // a bit for each open object or array, for the inner one the lowest: whether it is an object
	for depth := 0; ; {
		switch b := r.Kind(); b {
		case '{', '[':
			if depth == maxCommon {
				return false
			}
			objects, depth = objects<<1|uint64(b>>5&1), depth+1
			r.names.enter(depth)
			if r.enter(b, b+2) {
				if b == '{' && r.name() == 0 {
					return false
				}
				continue
			}
		default:
			if !r.scalar(b) {
				return false
			}
		}
		for depth > 0 && !r.next() {
			if r.Kind() != ']'+byte(objects&1)<<5 {
				return false
			}
			r.at++
			r.names.leave(depth)
			objects, depth = objects>>1, depth-1
		}
		if depth == 0 {
			return true
		}
		if objects&1 == 1 && r.name() == 0 {
			return false
		}
	}
}

// name steps over a member's name, up to its value. It returns the end of the name, or 0.
func (r *Reader) name() (end int) {
	from := r.at
	if r.Kind() != '"' || !r.text() {
		return 0
	}
	if end = r.at; !r.names.add(r.data[from:end]) {
		return 0
	}
	if r.Kind() != ':' {
		if r.space(); r.Kind() != ':' {
			return 0
		}
	}
	r.at++
	r.space()
	return end
}

const maxCommon = 64

// names are those of the open objects. Methods of nil do nothing.
type names struct {
	list  [64][]byte
	count int
	depth int
	first [maxCommon + 1]int // of an open object, by depth
}

func (n *names) enter(depth int) {
	if n != nil {
		n.first[depth], n.depth = n.count, depth
	}
}

func (n *names) leave(depth int) {
	if n != nil {
		n.count, n.depth = n.first[depth], depth-1
	}
}

// add adds a name of the inner object. It returns false if it is not known to be the first of its kind.
func (n *names) add(name []byte) bool {
	if n == nil {
		return true
	}
	if n.count == len(n.list) || bytes.IndexByte(name, '\\') >= 0 {
		return false
	}
	for _, earlier := range n.list[n.first[n.depth]:n.count] {
		if string(earlier) == string(name) {
			return false
		}
	}
	n.list[n.count] = name
	n.count++
	return true
}
