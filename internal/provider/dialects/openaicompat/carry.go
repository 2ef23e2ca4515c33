package openaicompat

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// maxCarried is the most that is kept for a call to bring back, in bytes. What is larger would be left out anyway.
const maxCarried = 256 << 10

// A carrier collects the pieces of members that must come back. A nil one carries nothing.
type carrier struct {
	by      openai.Carrier
	of      string // the provider that must have said it; empty: any
	members []carriedMember
	size    int
}

// A carriedMember is a text or a list.
type carriedMember struct {
	name   string
	text   []byte   // so far, as the inside of a JSON string
	pieces [][]byte // elements so far, as JSON
}

// carrier returns a carrier of the parts of an answer that must come back, or nil.
func (a *answer) carrier(by openai.Carrier) *carrier {
	if len(a.dialect.Carry) == 0 {
		return nil
	}
	c := &carrier{by: by, members: make([]carriedMember, len(a.dialect.Carry))}
	for i, name := range a.dialect.Carry {
		c.members[i].name = name
	}
	if a.dialect.CarryApart {
		c.of = a.provider
	}
	return c
}

// add takes in a message or a delta.
func (c *carrier) add(s *said) {
	if c == nil {
		return
	}
	for i := range c.members {
		m := &c.members[i]
		piece := s.member(m.name)
		if c.size += len(piece); c.size > maxCarried {
			return
		}
		switch {
		case isText(piece):
			m.text = append(m.text, piece[1:len(piece)-1]...)
		case kindOf(piece) == '[':
			eachElement(piece, func(element []byte) { m.pieces = append(m.pieces, slices.Clone(element)) })
		}
	}
}

// onto returns an id, which is JSON, with everything that must come back: the members of the message for the first
// call, and extra_content of the call itself.
func (c *carrier) onto(id []byte, first bool, extra []byte) []byte {
	if c == nil {
		return id
	}
	bare, err := jsontext.AppendUnquote(nil, id)
	data := c.json(first, extra)
	if data == nil || err != nil {
		return id
	}
	return openai.AppendString(nil, c.by.Carry(string(bare), data))
}

// json returns what must come back, or nil if that is nothing.
func (c *carrier) json(first bool, extra []byte) []byte {
	if c.size > maxCarried {
		return nil
	}
	dst := []byte{'{'}
	if c.of != "" {
		dst = openai.AppendString(append(dst, `"of":`...), c.of)
	}
	begun := len(dst)
	for i := range c.members {
		if first {
			dst = c.members[i].appendTo(dst)
		}
	}
	if c.of != "" && kindOf(extra) == '{' && !isEmpty(extra) {
		dst = append(appendName(dst, "extra_content"), extra...)
	}
	if len(dst) == begun {
		return nil
	}
	return append(dst, '}')
}

// appendName appends the name of a member of the open object.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(openai.AppendString(dst, name), ':')
}

// appendTo appends the member, if it says something that must come back.
func (m *carriedMember) appendTo(dst []byte) []byte {
	switch {
	case len(m.pieces) == 0 && len(m.text) == 0:
		return dst
	case len(m.pieces) == 0:
		return append(append(append(appendName(dst, m.name), '"'), m.text...), '"')
	case !slices.ContainsFunc(m.pieces, isOpaque):
		return dst
	}
	return appendList(appendName(dst, m.name), m.pieces)
}

// appendList appends the list that pieces make.
func appendList(dst []byte, pieces [][]byte) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(pieces); {
		if i > 0 {
			dst = append(dst, ',')
		}
		n := run(pieces[i:])
		dst = appendJoined(dst, pieces[i:i+n])
		i += n
	}
	return append(dst, ']')
}

// joined returns a list with its pieces joined.
func joined(list []byte) []byte {
	var pieces [][]byte
	eachElement(list, func(element []byte) { pieces = append(pieces, element) })
	return appendList(nil, pieces)
}

// isOpaque reports whether an element holds what only the vendor can read, so that nothing could take its place.
func isOpaque(element []byte) bool {
	return gjson.GetBytes(element, "signature").Str != "" || gjson.GetBytes(element, "data").Str != ""
}

// run returns how many of the elements, from the first one on, are pieces of one. Pieces have the same type and
// index, because some vendors send a few words at a time. Pieces of Claude's thinking end with its signature, and
// have no index.
func run(pieces [][]byte) int {
	key := func(piece []byte) [2]string {
		return [2]string{gjson.GetBytes(piece, "type").Str, gjson.GetBytes(piece, "index").Raw}
	}
	n, first := 1, key(pieces[0])
	thinks := first == [2]string{"thinking", ""}
	for ; n < len(pieces) && (first[1] != "" || thinks) && key(pieces[n]) == first; n++ {
		if thinks && gjson.GetBytes(pieces[n-1], "signature").Str != "" {
			break
		}
	}
	return n
}

// appendJoined appends the object that pieces make: texts are joined, and of everything else the last that is not null
// counts.
func appendJoined(dst []byte, pieces [][]byte) []byte {
	if len(pieces) == 1 {
		return append(dst, pieces[0]...)
	}
	var names []string
	values := map[string][]byte{}
	for _, piece := range pieces {
		eachMember(piece, func(name, value []byte) {
			n := string(name)
			before, known := values[n]
			switch joined := n == "text" || n == "summary" || n == "data" || n == "thinking"; {
			case !known:
				names = append(names, n)
				if joined {
					value = slices.Clone(value)
				}
				values[n] = value
			case joined && kindOf(before) == '"' && kindOf(value) == '"':
				values[n] = append(before[:len(before)-1], value[1:]...)
			case kindOf(value) != 'n' && string(value) != `""`:
				values[n] = slices.Clone(value)
			}
		})
	}
	from := len(dst)
	for _, name := range names {
		dst = appendMember(dst, []byte(name), jsontext.Value(values[name]))
	}
	dst[from] = '{' // in place of the comma
	return append(dst, '}')
}
