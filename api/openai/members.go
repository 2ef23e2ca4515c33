package openai

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// Members are the top-level members of a JSON object: the index that the parse of a request leaves behind, so that
// nobody else has to search its body. Nil has none.
type Members struct {
	Body    []byte
	members []memberSpan
	few     [16]memberSpan // members of most objects
}

// A memberSpan is one top-level member: Body[start:end] is its value, and its name begins at nameStart.
type memberSpan struct {
	name                  string
	nameStart, start, end int
}

// MembersOf returns the members of a body that was checked: it is one JSON object.
func MembersOf(body []byte) *Members {
	m := &Members{Body: body}
	m.members = m.few[:0]
	jsonwalk.Object(body, jsonwalk.Between(body, 0), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(body, start)
		m.members = append(m.members, memberSpan{intern((&cursor{data: body[name:nameEnd]}).str()), name, start, end})
		return end
	})
	return m
}

// Has reports whether the object has the member, which may be null.
func (m *Members) Has(name string) bool { return m.find(name) >= 0 }

// Get returns the JSON value of a member, or nil. It is a part of Body.
func (m *Members) Get(name string) jsontext.Value {
	if i := m.find(name); i >= 0 {
		return m.Body[m.members[i].start:m.members[i].end]
	}
	return nil
}

// Member returns the name and the JSON value of a member, by its place, and whether there is one.
func (m *Members) Member(i int) (name string, value []byte, ok bool) {
	if m == nil || i >= len(m.members) {
		return "", nil, false
	}
	of := &m.members[i]
	return of.name, m.Body[of.start:of.end], true
}

// Written is Member with the name as it is written, in its quotes.
func (m *Members) Written(i int) (name, value []byte, ok bool) {
	if m == nil || i >= len(m.members) {
		return nil, nil, false
	}
	of := &m.members[i]
	return m.Body[of.nameStart:jsonwalk.String(m.Body, of.nameStart)], m.Body[of.start:of.end], true
}

func (m *Members) find(name string) int {
	if m == nil {
		return -1
	}
	for i := range m.members {
		if m.members[i].name == name {
			return i
		}
	}
	return -1
}
