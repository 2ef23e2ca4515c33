package openaicompat

import (
	"slices"
	"strings"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A span is where a member stands in an object.
type span struct {
	first      bool // it is its object's first member
	after      int  // where the member before it ends
	name       int  // where its name begins
	start, end int  // its value; end is 0 if there is no such member
}

func (s span) found() bool { return s.end > 0 }

// value returns the member's value, or nil.
func (s span) value(data []byte) []byte { return data[s.start:s.end] }

// members are the places of an answer's members that the codec acts on.
type members struct {
	id, object, created, model, choices, usage, fault span
	groq                                              span // x_groq, where Groq reports usage too
	tier                                              span // service_tier
	citations, results                                span // citations and search_results: what a search has found
	data                                              span // of embeddings
	includeUsage                                      span // of stream_options

	empty bool // has no member at all
	end   int  // where the closing brace stands
}

// scan finds the members of a JSON object in one pass. It reports false if data is not a JSON object.
func scan(data []byte) (members, bool) {
	var m members
	if kindOf(data) != '{' {
		return m, false
	}
	m.empty = true
	first, after := true, 0
	r := jsonwalk.NewReader(data)
	r.Object(func(name, nameEnd int) {
		s := span{first: first, after: after, name: name, start: r.At()}
		r.Value()
		s.end = r.At()
		if p := m.find(data[name+1 : nameEnd-1]); p != nil {
			*p = s
		}
		first, after, m.empty = false, s.end, false
	})
	m.end = r.At() - 1
	return m, r.End()
}

// eachMember calls f for the members of an object, with the name as it is written. Of what is not an object there are
// none.
func eachMember(data []byte, f func(name, value []byte)) {
	if kindOf(data) == '{' {
		jsonwalk.Object(data, 0, func(name, nameEnd, start int) int {
			end := jsonwalk.Value(data, start)
			f(data[name+1:nameEnd-1], data[start:end])
			return end
		})
	}
}

// eachElement calls f for the elements of an array. Of what is not an array there are none.
func eachElement(data []byte, f func(value []byte)) {
	if kindOf(data) == '[' {
		jsonwalk.Array(data, 0, func(start int) int {
			end := jsonwalk.Value(data, start)
			f(data[start:end])
			return end
		})
	}
}

// spans calls f for the members of the object that begins at a place, with the name as it is written.
func spans(data []byte, at int, f func(name []byte, s span)) {
	first, after := true, at
	jsonwalk.Object(data, at, func(name, nameEnd, start int) int {
		end := jsonwalk.Value(data, start)
		f(data[name+1:nameEnd-1], span{first: first, after: after, name: name, start: start, end: end})
		first, after = false, end
		return end
	})
}

func (m *members) find(name []byte) *span {
	switch string(name) {
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
	case "service_tier":
		return &m.tier
	case "x_groq":
		return &m.groq
	case "citations":
		return &m.citations
	case "search_results":
		return &m.results
	case "data":
		return &m.data
	case "include_usage":
		return &m.includeUsage
	}
	return nil
}

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

// set gives a member a value. An absent member is added at the end of its object, which has another member and
// whose closing brace stands at end; name is then what comes before the value.
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
