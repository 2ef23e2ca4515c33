package openaicompat

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// A span is where a member stands in an object.
type span struct {
	first      bool // it is its object's first member
	after      int  // where the member before it ends
	name       int  // where its name begins
	start, end int  // its value; end is 0 where there is no such member
}

func (s span) found() bool { return s.end > 0 }

// value returns the member's value, or nil.
func (s span) value(data []byte) []byte { return data[s.start:s.end] }

// shift returns the same span as seen from n bytes further to the left.
func (s span) shift(n int) span {
	return span{first: s.first, after: s.after + n, name: s.name + n, start: s.start + n, end: s.end + n}
}

// members are the places of an object's members that the codec acts on.
type members struct {
	id, object, created, model, choices, usage, fault span // of an answer
	role, includeUsage                                span // of a delta and of stream_options

	empty bool // has no member at all
	end   int  // where the closing brace stands
}

// scan finds the members of a JSON object in one pass. It reports false for what is not a JSON object.
func scan(data []byte) (members, bool) {
	var m members
	if len(data) == 0 || data[0] != '{' || !gjson.ValidBytes(data) {
		return m, false
	}
	m.empty, m.end = true, bytes.LastIndexByte(data, '}')
	after := 0
	gjson.Parse(view(data)).ForEach(func(key, value gjson.Result) bool {
		s := span{first: m.empty, after: after, name: key.Index, start: value.Index, end: value.Index + len(value.Raw)}
		if p := m.find(key.Str); p != nil {
			*p = s
		}
		m.empty, after = false, s.end
		return true
	})
	return m, true
}

func (m *members) find(name string) *span {
	switch name {
	case "id":
		return &m.id
	case "object":
		return &m.object
	case "created":
		return &m.created
	case "model":
		return &m.model
	case "choices":
		return &m.choices
	case "usage":
		return &m.usage
	case "error":
		return &m.fault
	case "role":
		return &m.role
	case "include_usage":
		return &m.includeUsage
	}
	return nil
}

// view returns data as a string without a copy, for a reader that does not keep it: data must not change meanwhile.
func view(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// A patch is JSON with some parts of it replaced. Its zero value is ready for reset.
type patch struct {
	data  []byte
	edits []edit // in the order of their places
}

// An edit replaces data[from:to] by name, which is empty or what comes before a value, and value.
type edit struct {
	from, to    int
	name, value string
}

func (p *patch) reset(data []byte) { p.data, p.edits = data, p.edits[:0] }

func (p *patch) add(e edit) {
	i := len(p.edits)
	for i > 0 && p.edits[i-1].from > e.from {
		i--
	}
	p.edits = slices.Insert(p.edits, i, e)
}

// set gives a member a value. Where it is not there yet, it is added at the end of its object, which has another member
// and whose closing brace stands at end; name is then what comes before the value.
func (p *patch) set(s span, end int, name, value string) {
	switch {
	case !s.found():
		p.add(edit{from: end, to: end, name: name, value: value})
	case string(s.value(p.data)) != value:
		p.add(edit{from: s.start, to: s.end, value: value})
	}
}

// remove takes a member out, with the comma that belongs to it.
func (p *patch) remove(s span) {
	if !s.first {
		p.add(edit{from: s.after, to: s.end})
		return
	}
	next := s.end
	for next < len(p.data) && strings.IndexByte(" \t\r\n,", p.data[next]) >= 0 {
		next++
	}
	p.add(edit{from: s.name, to: next})
}

// appendTo appends the patched data to dst.
func (p *patch) appendTo(dst []byte) []byte {
	at := 0
	for _, e := range p.edits {
		dst = append(dst, p.data[at:e.from]...)
		dst = append(dst, e.name...)
		dst = append(dst, e.value...)
		at = e.to
	}
	return append(dst, p.data[at:]...)
}
