package openaicompat

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A heldList is a list of a choice's deltas, such as annotations, that is given whole before the choice ends:
// openai-python's accumulator fails if a second delta adds to a list whose elements have no index, and openai-node
// keeps the last alone.
type heldList struct {
	name     string
	elements []byte // with commas between them
}

type heldLists []heldList

// add takes in the elements of a list. What would be more than maxAnnotated is left out.
func (h *heldLists) add(name, list []byte) {
	i := slices.IndexFunc(*h, func(l heldList) bool { return l.name == string(name) })
	if i < 0 {
		i = len(*h)
		*h = append(*h, heldList{name: string(name)})
	}
	l := &(*h)[i]
	if len(l.elements)+len(list) > maxAnnotated {
		return
	}
	if len(l.elements) > 0 {
		l.elements = append(l.elements, ',')
	}
	l.elements = append(l.elements, bytes.TrimSpace(list[1:len(list)-1])...)
}

// each calls f for each list, whole.
func (h heldLists) each(f func(name string, list []byte)) {
	for _, l := range h {
		list := slices.Concat([]byte{'['}, l.elements, []byte{']'})
		if l.name == "thinking_blocks" {
			list = joined(list)
		}
		f(l.name, list)
	}
}

// isHeld reports whether a member of a delta is a list that only can be given whole: the first of its elements is an
// object without an index.
func isHeld(value []byte) bool {
	if kindOf(value) != '[' || isEmpty(value) {
		return false
	}
	first := jsonwalk.Between(value, 1)
	if value[first] != '{' {
		return false
	}
	held := true
	jsonwalk.Object(value, first, func(name, nameEnd, start int) int {
		held = held && string(value[name+1:nameEnd-1]) != "index"
		return jsonwalk.Value(value, start)
	})
	return held
}

// holdLists takes lists out of a chunk that passes as it came, and writes those of choices that end with it.
func (s *stream) holdLists(out chat.Sink) {
	r, p := &s.read, &s.passed
	if slices.ContainsFunc(r.choices, func(c choice) bool { return c.said.listed }) {
		p.takeLists(r)
	}
	for position := range r.choices {
		c := &r.choices[position]
		if !isText(c.reason) {
			continue
		}
		index := c.indexOr(position)
		p.lists[index].each(func(name string, list []byte) { s.passList(index, name, list, out) })
		delete(p.lists, index)
		if uint(index) < 64 {
			p.ended |= 1 << index
		}
	}
}

func (p *passed) takeLists(r *reading) {
	position := -1
	jsonwalk.Array(p.patch.data, r.members.choices.start, func(start int) int {
		position++
		if p.patch.data[start] != '{' || position >= len(r.choices) || !r.choices[position].said.listed {
			return jsonwalk.Value(p.patch.data, start)
		}
		index := r.choices[position].indexOr(position)
		if uint(index) < 64 && p.ended&(1<<index) != 0 {
			return jsonwalk.Value(p.patch.data, start) // nothing comes after it that it could be given before
		}
		return jsonwalk.Object(p.patch.data, start, func(name, nameEnd, start int) int {
			if string(p.patch.data[name+1:nameEnd-1]) == "delta" && p.patch.data[start] == '{' {
				p.takeFromDelta(start, index)
			}
			return jsonwalk.Value(p.patch.data, start)
		})
	})
}

func (p *passed) takeFromDelta(at, index int) {
	kept := false
	spans(p.patch.data, at, func(name []byte, s span) {
		value := s.value(p.patch.data)
		if string(name) == "tool_calls" || !isHeld(value) {
			kept = true
			return
		}
		s.first = !kept // what stood before it and is taken out took its comma along
		p.patch.remove(s)
		if p.lists == nil {
			p.lists = map[int]heldLists{}
		}
		list := p.lists[index]
		list.add(name, value)
		p.lists[index] = list
	})
}

// passList writes a chunk with a list, which is otherwise as the chunk at hand.
func (s *stream) passList(index int, name string, list []byte, out chat.Sink) {
	r := &s.read
	choices := strconv.AppendInt([]byte(`[{"index":`), int64(index), 10)
	choices = openai.AppendString(append(choices, `,"delta":{`...), name)
	choices = append(append(append(choices, ':'), list...), `},"logprobs":null,"finish_reason":null}]`...)
	p := patch{data: r.data}
	p.set(r.members.choices, 0, "", string(choices))
	if s.renamed && r.model.found() {
		p.set(r.model, 0, "", quote(s.asked.Model))
	}
	switch {
	case !r.usage.found():
	case s.forced:
		p.remove(r.usage)
	default:
		p.set(r.usage, 0, "", "null")
	}
	out.Put(covered(chat.Member(index, name, list)))
	s.put(p.appendTo(s.scratch[:0]), out)
}
