package openaicompat

import (
	"bytes"
	"strconv"
)

// maxChoices is the most choices that a request can ask for.
const maxChoices = 128

// choiceStates follows the choices of a stream, so that each begins with one role, also where the vendor repeats or forgets
// it, and has no more than one finish reason.
type choiceStates struct {
	wanted int // by the client
	states []choiceState
}

type choiceState struct{ started, finished bool }

func (c *choiceStates) anyStarted() bool {
	for _, s := range c.states {
		if s.started {
			return true
		}
	}
	return false
}

func (c *choiceStates) allFinished() bool {
	for _, s := range c.states {
		if !s.finished {
			return false
		}
	}
	return len(c.states) > 0 && len(c.states) >= c.wanted
}

func (c *choiceStates) at(index int) *choiceState {
	for len(c.states) <= index {
		c.states = append(c.states, choiceState{})
	}
	return &c.states[index]
}

// rewrite corrects the choices of a chunk. It reports false where nothing of the chunk may be shown: all its choices have
// finished before.
func (c *choiceStates) rewrite(p *patch, list span, d *Dialect) bool {
	if c.nothingToDo(list.value(p.data)) {
		return true
	}
	live := false
	walkArray(p.data[:list.end], list.start, func(start, end int) {
		if p.data[start] != '{' {
			return
		}
		index, delta, reason := 0.0, span{}, span{}
		walk(p.data[:end], start, func(name, nameEnd, start, end int) {
			switch string(p.data[name:nameEnd]) {
			case `"index"`:
				index, _ = strconv.ParseFloat(string(p.data[start:end]), 64) // what is no number is the first
			case `"delta"`:
				delta = span{start: start, end: end}
			case `"finish_reason"`:
				reason = span{start: start, end: end}
			}
		})
		if index < 0 || index >= maxChoices {
			return
		}
		state := c.at(int(index))
		if state.finished {
			return
		}
		live = true
		if delta.found() {
			state.role(p, delta)
		}
		if reason.found() {
			state.finish(p, reason, d)
		}
	})
	return live
}

// nothingToDo recognises, without parsing it, a chunk amid the answer to a request for one choice. What looks like a
// member cannot be text: within a JSON string its quotes would be escaped.
func (c *choiceStates) nothingToDo(list []byte) bool {
	return c.wanted == 1 && len(c.states) == 1 && c.states[0] == choiceState{started: true} &&
		bytes.Contains(list, []byte(`"finish_reason":null`)) && !bytes.Contains(list, []byte(`"role"`))
}

// role makes a delta have the role where it is the first of its choice, and only there.
func (s *choiceState) role(p *patch, delta span) {
	m, ok := scan(delta.value(p.data))
	if !ok {
		return
	}
	at := delta.start
	role := m.role.shift(at)
	switch {
	case s.started && m.role.found():
		p.remove(role)
	case s.started:
	case m.role.found():
		p.set(role, 0, "", `"assistant"`)
	case m.empty:
		p.add(edit{from: at + 1, to: at + 1, value: `"role":"assistant"`})
	default:
		p.add(edit{from: at + 1, to: at + 1, value: `"role":"assistant",`})
	}
	s.started = true
}

// finish notes a finish reason, and makes it one that clients know.
func (s *choiceState) finish(p *patch, reason span, d *Dialect) {
	if string(reason.value(p.data)) == `""` {
		p.add(edit{from: reason.start, to: reason.end, value: "null"})
		return
	}
	s.finished = d.correctReason(p, reason)
}
