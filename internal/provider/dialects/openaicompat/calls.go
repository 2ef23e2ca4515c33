package openaicompat

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A call is one element of tool_calls, of a message or of a delta. Its members are JSON, and nil if they are
// absent.
type call struct {
	data, function              []byte
	index, id, typ, name, given []byte
	extra                       []byte // extra_content
}

func readCall(data []byte) call {
	c := call{data: data}
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "index":
			if kindOf(value) != 'n' {
				c.index = value
			}
		case "id":
			c.id = value
		case "type":
			c.typ = value
		case "function":
			c.function = value
		case "extra_content":
			c.extra = value
		}
	})
	eachMember(c.function, func(name, value []byte) {
		switch string(name) {
		case "name":
			c.name = value
		case "arguments":
			c.given = value
		}
	})
	return c
}

// arguments returns what the vendor gives of the arguments as a JSON string. Some give the object itself. It is nil
// where there is nothing.
func (c *call) arguments() []byte {
	switch k := kindOf(c.given); {
	case isText(c.given):
		return c.given
	case k == '{' || k == '[':
		v := jsontext.Value(bytes.Clone(c.given))
		if v.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
			v = c.given
		}
		return openai.AppendString(nil, string(v))
	}
	return nil
}

// appendWhole appends a call of a whole answer, which has no index.
func (c *call) appendWhole(dst []byte, id callID) []byte {
	dst = c.appendHead(dst, id.carried.onto(c.idOr(id), id.call == 0, c.extra))
	if c.isCustom() {
		return append(appendOthers(dst, c.data, "index", "id", "type"), '}')
	}
	arguments := c.arguments()
	if arguments == nil {
		arguments = []byte(`"{}"`)
	}
	dst = append(append(dst, `,"function":{"name":`...), c.name...)
	dst = append(append(dst, `,"arguments":`...), arguments...)
	return c.appendOthers(append(appendOthers(dst, c.function, "name", "arguments"), '}'))
}

// isCustom reports whether the call is for a tool that takes text, which has no function.
func (c *call) isCustom() bool { return c.function == nil && string(c.typ) == `"custom"` }

// A callID has the facts that decide about the id of a call, besides the vendor's.
type callID struct {
	answer       string
	choice, call int
	carried      *carrier // what calls must bring back, or nil
	names        *turns.Names
}

// idOr returns the call's id. One that the vendor gave none is named by the id of the answer, so that no two of a
// conversation are the same.
func (c *call) idOr(id callID) []byte {
	if isText(c.id) {
		return c.id
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", id.answer, id.choice, id.call))
	return []byte(`"call_` + base32.StdEncoding.EncodeToString(sum[:15]) + `"`)
}

// appendHead appends what begins a call.
func (c *call) appendHead(dst, id []byte) []byte {
	dst = append(append(dst, `{"id":`...), id...)
	if isText(c.typ) {
		return append(append(dst, `,"type":`...), c.typ...)
	}
	return append(dst, `,"type":"function"`...)
}

// appendOthers appends the other members, and ends the call.
func (c *call) appendOthers(dst []byte) []byte {
	return append(appendOthers(dst, c.data, "index", "id", "type", "function"), '}')
}

// callStates follows the calls of one choice of a stream. Vendors number them from anything, number all of them 0, or
// not at all, and repeat ids and names.
type callStates []*callState

type callState struct {
	vendors   string // the vendor's index, as JSON
	id        []byte // JSON
	name      string // JSON; empty if it has not come yet
	custom    bool
	number    int    // the client's index; -1 until the call is written
	arguments []byte // so far, as the inside of a JSON string
	brackets  brackets
}

// find returns the call that a delta continues, or nil if it begins one.
func (s callStates) find(c *call) *callState {
	if isText(c.id) {
		for _, known := range slices.Backward(s) {
			if bytes.Equal(known.id, c.id) && (c.index == nil || known.vendors == string(c.index)) {
				return known
			}
		}
		if isText(c.name) {
			return nil // also where another call has the id
		}
	}
	var known *callState
	for _, k := range slices.Backward(s) {
		if c.index == nil || k.vendors == string(c.index) {
			known = k
			break
		}
	}
	switch {
	case known == nil, !isText(c.name) || known.name == "":
		return known
	case known.name != string(c.name), known.complete():
		return nil
	}
	return known
}

// complete reports whether the arguments are JSON already, so that another name begins another call.
func (s *callState) complete() bool {
	if len(s.arguments) > short {
		return s.brackets.ends(s.arguments)
	}
	text, err := jsontext.AppendUnquote(nil, slices.Concat([]byte{'"'}, s.arguments, []byte{'"'}))
	return err == nil && jsonwalk.Strict(text)
}

// short is the largest size of arguments that are read again with each piece.
const short = 256

// brackets follow the brackets of arguments that come in pieces, so that none is read twice.
type brackets struct {
	at              int // of the arguments, up to where they were read
	depth           int
	quoted, escaped bool
}

// ends reads on in arguments, and reports whether every bracket in them is closed.
func (b *brackets) ends(arguments []byte) bool {
	text, _ := jsontext.AppendUnquote(nil, slices.Concat([]byte{'"'}, arguments[b.at:], []byte{'"'}))
	b.at = len(arguments)
	for _, c := range text {
		switch {
		case b.escaped:
			b.escaped = false
		case b.quoted && c == '\\':
			b.escaped = true
		case c == '"':
			b.quoted = !b.quoted
		case b.quoted:
		case c == '{' || c == '[':
			b.depth++
		case c == '}' || c == ']':
			b.depth--
		}
	}
	return b.depth == 0 && !b.quoted
}

// appendDelta appends what the client gets of tool_calls in a delta: nothing if that is nothing new.
func (s *callStates) appendDelta(dst, list []byte, id callID) []byte {
	start := len(dst)
	eachElement(list, func(data []byte) {
		if kindOf(data) != '{' {
			return
		}
		c := readCall(data)
		c.named(id.names)
		known := s.find(&c)
		if known == nil && len(*s) >= provider.MaxOpen {
			return // the answer fails
		}
		if known == nil {
			if slices.ContainsFunc(*s, func(other *callState) bool { return bytes.Equal(other.id, c.id) }) {
				c.id = nil
			}
			id.call = len(*s)
			known = &callState{vendors: string(c.index), id: bytes.Clone(c.idOr(id)), custom: c.isCustom(), number: -1}
			*s = append(*s, known)
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		written := len(dst)
		if dst = s.appendCall(dst, known, &c, id.carried); len(dst) == written {
			dst = dst[:before]
		}
	})
	return dst
}

// appendCall appends what a delta adds to a call. A call is begun once its name is known.
func (s *callStates) appendCall(dst []byte, known *callState, c *call, carried *carrier) []byte {
	if known.name == "" && isText(c.name) {
		known.name = string(c.name)
	}
	fragment := c.arguments()
	begun := known.number >= 0
	if fragment != nil {
		known.arguments = append(known.arguments, fragment[1:len(fragment)-1]...)
	}
	switch {
	case begun && known.custom:
		return append(appendOthers(appendCount(dst, `{"index":`, int64(known.number)), c.data, "index", "id", "type"), '}')
	case begun && fragment == nil && !c.hasOthers():
		return dst
	case begun:
		dst = appendCount(dst, `{"index":`, int64(known.number))
		if fragment != nil {
			dst = append(append(append(dst, `,"function":{"arguments":`...), fragment...), '}')
		}
		return c.appendOthers(dst)
	case known.name == "" && !known.custom:
		return dst
	}
	for _, other := range *s {
		known.number = max(known.number, other.number)
	}
	known.number++
	dst = appendCount(dst, `{"index":`, int64(known.number))
	head := c.appendHead(nil, carried.onto(known.id, known.number == 0, c.extra))
	dst = append(append(dst, ','), head[1:]...)
	if known.custom {
		return append(appendOthers(dst, c.data, "index", "id", "type"), '}')
	}
	dst = append(append(dst, `,"function":{"name":`...), known.name...)
	dst = append(append(append(dst, `,"arguments":"`...), known.arguments...), '"')
	return c.appendOthers(append(appendOthers(dst, c.function, "name", "arguments"), '}'))
}

func (c *call) hasOthers() bool {
	n := len(appendOthers(nil, c.data, "index", "id", "type", "function"))
	return n > 0
}

// made reports whether any call has been written.
func (s callStates) made() bool {
	return slices.ContainsFunc(s, func(c *callState) bool { return c.number >= 0 })
}

// appendMissing appends the arguments of calls that have none, which are {} to clients.
func (s callStates) appendMissing(dst []byte) []byte {
	start := len(dst)
	for _, c := range s {
		if c.number < 0 || len(c.arguments) > 0 || c.custom {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), int64(c.number), 10)
		dst = append(dst, `,"function":{"arguments":"{}"}}`...)
	}
	return dst
}
