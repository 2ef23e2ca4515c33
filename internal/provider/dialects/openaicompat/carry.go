package openaicompat

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// maxCarried is the most that is kept for a call to bring back, in bytes. What is larger would be left out anyway.
const maxCarried = 256 << 10

// A carrier collects the pieces of a member that must come back, a text or a list. A nil one carries nothing.
type carrier struct {
	by     openai.Carrier
	name   string   // of the member
	text   []byte   // so far, as the inside of a JSON string
	pieces [][]byte // elements so far, as JSON
	size   int
}

// add takes the next piece, as JSON, or nil.
func (c *carrier) add(piece []byte) {
	if c.size += len(piece); c.size > maxCarried {
		return
	}
	switch {
	case isText(piece):
		c.text = append(c.text, piece[1:len(piece)-1]...)
	case kindOf(piece) == '[':
		eachElement(piece, func(element []byte) { c.pieces = append(c.pieces, slices.Clone(element)) })
	}
}

// onto returns an id, which is JSON, with what must come back with it.
func (c *carrier) onto(id []byte) []byte {
	if c == nil {
		return id
	}
	bare, err := jsontext.AppendUnquote(nil, id)
	data := c.json()
	if data == nil || err != nil {
		return id
	}
	return openai.AppendString(nil, c.by.Carry(string(bare), data))
}

// json returns what must come back, or nil where that is nothing.
func (c *carrier) json() []byte {
	if c.size > maxCarried || len(c.text) == 0 && !slices.ContainsFunc(c.pieces, isOpaque) {
		return nil
	}
	dst := append(openai.AppendString([]byte{'{'}, c.name), ':')
	if len(c.pieces) == 0 {
		return append(append(append(dst, '"'), c.text...), `"}`...)
	}
	dst = append(dst, '[')
	for i := 0; i < len(c.pieces); {
		if i > 0 {
			dst = append(dst, ',')
		}
		n := c.run(i)
		dst = appendJoined(dst, c.pieces[i:i+n])
		i += n
	}
	return append(dst, ']', '}')
}

// isOpaque reports whether an element holds what only the vendor can read, so that nothing could take its place.
func isOpaque(element []byte) bool {
	return gjson.GetBytes(element, "signature").Str != "" || gjson.GetBytes(element, "data").Str != ""
}

// run returns how many of the elements from the i-th on are pieces of one: those of a type and an index, which some
// vendors send a few words at a time.
func (c *carrier) run(i int) int {
	key := func(piece []byte) [2]string {
		return [2]string{gjson.GetBytes(piece, "type").Str, gjson.GetBytes(piece, "index").Raw}
	}
	n := 1
	for first := key(c.pieces[i]); i+n < len(c.pieces) && first[1] != "" && key(c.pieces[i+n]) == first; n++ {
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
			switch joined := n == "text" || n == "summary" || n == "data"; {
			case !known:
				names = append(names, n)
				if joined {
					value = slices.Clone(value)
				}
				values[n] = value
			case joined && kindOf(before) == '"' && kindOf(value) == '"':
				values[n] = append(before[:len(before)-1], value[1:]...)
			case kindOf(value) != 'n':
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
