package reported

import (
	"errors"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
)

const (
	maxLevel = 6  // of objects and lists whose members are read
	maxPath  = 96 // bytes of a path
	maxToken = 64 // bytes of a value
)

// A Reader reads an object of usage that arrives in pieces, which are cut anywhere. It stores nothing but counts, so
// the object may have any length. The object must be well-formed. The zero value is ready for use.
type Reader struct {
	usage, item Usage // item is the iteration that is read
	inItem      bool
	element     struct {
		field  field
		tokens int64
		kind   [8]byte
		size   int
	}

	path  [maxPath]byte
	size  int // of the path
	depth int
	level [maxLevel + 1]struct {
		end    int // of the path of the object or list
		object bool
	}

	token   [maxToken]byte
	length  int // of the token, which may be longer
	text    bool
	escaped bool
	naming  bool // a name comes next, or is read
	scalar  bool
}

// Read returns the usage of an object, which must be valid JSON. Anything but an object reports nothing.
func Read(object []byte) (u Usage) {
	if u.readCounts(object) {
		return u
	}
	var r Reader
	r.Feed(object)
	return r.usage
}

// Usage returns what was read so far.
func (r *Reader) Usage() Usage { return r.usage }

// Feed reads a piece. Most of it is within strings and numbers, which are taken as a whole.
func (r *Reader) Feed(piece []byte) {
	for i := 0; i < len(piece); i++ {
		from := i
		switch {
		case r.text && !r.escaped:
			for i < len(piece) && piece[i] != '"' && piece[i] != '\\' {
				i++
			}
		case r.scalar:
			for i < len(piece) && (piece[i] >= '0' && piece[i] <= '9' || piece[i] >= 'a' && piece[i] <= 'z') {
				i++
			}
		}
		if i > from {
			r.keep(piece[from:i]...)
		}
		if i < len(piece) {
			r.Byte(piece[i])
		}
	}
}

// Byte reads a byte.
func (r *Reader) Byte(c byte) {
	if r.text {
		r.character(c)
	} else {
		r.structure(c)
	}
}

// character reads a byte of a string.
func (r *Reader) character(c byte) {
	switch {
	case r.escaped:
		r.escaped = false
	case c == '\\':
		r.escaped = true
	case c == '"':
		r.text = false
		if r.naming {
			r.name()
		} else {
			r.value(true)
		}
		return
	}
	r.keep(c)
}

func (r *Reader) keep(part ...byte) {
	if r.length < maxToken {
		copy(r.token[r.length:], part)
	}
	r.length += len(part)
}

// structure reads a byte outside of strings.
func (r *Reader) structure(c byte) {
	switch c {
	case '"':
		r.text, r.length = true, 0
		return
	case '{', '[':
		r.open(c == '{')
		return
	}
	if r.scalar && (c == ',' || c == '}' || c == ']' || c <= ' ') {
		r.scalar = false
		r.value(false)
	}
	switch {
	case c == '}' || c == ']':
		r.close()
	case c == ',':
		r.naming = r.depth <= maxLevel && r.depth > 0 && r.level[r.depth].object
	case c == ':':
		r.naming = false
	case c > ' ':
		if !r.scalar {
			r.scalar, r.length = true, 0
		}
		r.keep(c)
	}
}

// open begins an object or a list.
func (r *Reader) open(object bool) {
	if r.depth++; r.depth > maxLevel {
		return
	}
	r.level[r.depth].end, r.level[r.depth].object = r.size, object
	r.naming = object
	if !object || r.depth < 2 || r.level[r.depth-1].object {
		return
	}
	switch name := r.path[:r.size]; {
	case string(name) == iterations && r.depth == 3:
		r.inItem, r.item = true, Usage{}
	case lists[string(name)]:
		r.element.field, r.element.tokens, r.element.size = none, 0, 0
	}
}

// close ends an object or a list.
func (r *Reader) close() {
	if r.depth == 0 {
		return
	}
	if r.depth <= maxLevel {
		at := r.level[r.depth]
		r.size, r.naming = at.end, false
		if at.object && r.depth > 1 && !r.level[r.depth-1].object {
			switch name := r.path[:r.size]; {
			case string(name) == iterations && r.inItem:
				r.inItem = false
				r.usage.iterate(r.item.OpenAI(), r.item.model)
			case lists[string(name)]:
				r.elementEnds()
			}
		}
	}
	r.depth--
}

// elementEnds adds what an element of a list counts, if it is a kind that is counted apart.
func (r *Reader) elementEnds() {
	of := r.element.field
	switch kind := string(r.element.kind[:r.element.size]); {
	case of == hour && kind != "1h":
		r.usage.add(brief, r.element.tokens)
	case of == hour, kind == "AUDIO", kind == "audio", kind == "4":
		r.usage.add(of, r.element.tokens)
	case images[of] != none && (kind == "IMAGE" || kind == "image" || kind == "2"):
		r.usage.add(images[of], r.element.tokens)
	}
}

// name adds a name to the path. A name that is too long to be known is cut, and nothing is found by it.
func (r *Reader) name() {
	if r.depth == 0 || r.depth > maxLevel {
		return
	}
	end := r.level[r.depth].end
	if end > 0 && end < maxPath {
		r.path[end] = '.'
		end++
	}
	n := copy(r.path[end:], r.token[:min(r.length, maxToken)])
	if r.length > maxToken {
		n = 0
	}
	r.size = end + n
}

// value takes a string, a number, or another value.
func (r *Reader) value(text bool) {
	if r.depth > maxLevel || !r.level[r.depth].object || r.length > maxToken {
		return
	}
	to, path, token := &r.usage, r.path[:r.size], r.token[:r.length]
	if r.inItem {
		to, path = &r.item, path[min(len(iterations)+1, len(path)):]
		if text && string(path) == "model" {
			to.model = string(token)
			return
		}
	}
	if r.inItem || r.depth != 3 || !lists[string(path[:r.level[r.depth].end])] {
		to.take(path, token, text)
		return
	}
	if f := forms[string(path)]; f == kind {
		r.element.size = copy(r.element.kind[:], token)
	} else if n, ok := number(token); ok && f != none {
		r.element.field, r.element.tokens = f, n
	}
}

// number reads a count. Some vendors send counts with a decimal point, or in a string. What cannot be a count is none.
func number(token []byte) (int64, bool) {
	n, digits := int64(0), len(token) > 0 && len(token) < 18
	for _, c := range token {
		if digits = digits && c >= '0' && c <= '9'; !digits {
			break
		}
		n = n*10 + int64(c-'0')
	}
	if digits {
		return openai.Count(n), true
	}
	f, err := strconv.ParseFloat(string(token), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || f != f {
		return 0, false
	}
	return int64(min(max(f, 0), openai.MaxTokens)), true
}
