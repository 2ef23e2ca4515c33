package openai

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// An Object is a JSON object whose top-level members are known by position, so that some can be replaced and every
// other byte stays as it was.
type Object struct {
	Body    []byte
	members []member
}

// A member is one top-level member: Body[start:end] is its value, nameStart where its name begins.
type member struct {
	name                  string
	nameStart, start, end int
}

// An Edit sets a top-level member to a JSON value, or removes it where Value is nil.
type Edit struct {
	Name  string
	Value []byte
}

// Has reports whether the object has the member, also where it is null.
func (o *Object) Has(name string) bool { return o.find(name) >= 0 }

// Get returns the JSON value of a member, or nil. It is a part of Body.
func (o *Object) Get(name string) jsontext.Value {
	if i := o.find(name); i >= 0 {
		return o.Body[o.members[i].start:o.members[i].end]
	}
	return nil
}

// Edit returns a copy of the body with the edits applied. Members that are not there yet are added at the end.
func (o *Object) Edit(edits ...Edit) []byte {
	size := len(o.Body)
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + len(`,"":`)
	}
	out := make([]byte, 0, size)
	from, kept := 0, 0 // the next byte of Body to copy; where in out the last member that stays ends
	for i, m := range o.members {
		e := findEdit(edits, m.name)
		switch {
		case e == nil:
			out, from = append(out, o.Body[from:m.end]...), m.end
			kept = len(out)
		case e.Value != nil:
			out, from = append(append(out, o.Body[from:m.start]...), e.Value...), m.end
			kept = len(out)
		case i+1 < len(o.members):
			out, from = append(out, o.Body[from:m.nameStart]...), o.members[i+1].nameStart
		case kept > 0:
			out, from = out[:kept], m.end // with the comma that stood before it
		default:
			out, from = append(out, o.Body[from:m.nameStart]...), m.end
		}
	}
	closing := bytes.LastIndexByte(o.Body, '}')
	out = append(out, o.Body[from:closing]...)
	for _, e := range edits {
		if e.Value == nil || o.Has(e.Name) {
			continue
		}
		if kept > 0 {
			out = append(out, ',')
		}
		out = append(append(AppendString(out, e.Name), ':'), e.Value...)
		kept = len(out)
	}
	return append(out, o.Body[closing:]...)
}

func (o *Object) find(name string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
}

func findEdit(edits []Edit, name string) *Edit {
	for i := range edits {
		if edits[i].Name == name {
			return &edits[i]
		}
	}
	return nil
}
