package openaicompat

import "strconv"

// maxChoices is the most choices that are followed: OpenAI gives at most 128, and legacy completions have them for
// each prompt.
const maxChoices = 4096

// choiceStates follows the choices of a stream.
type choiceStates []choiceState

type choiceState struct {
	started      bool
	released     bool       // its end has been written
	reason       string     // its finish reason; empty if it has none yet
	calls        callStates // that it made
	functionCall bool       // it made one of the older kind
	carried      *carrier   // what its first call must bring back; nil if that is nothing
	lists        heldLists  // of its deltas
	held         []byte     // the chunk that ends it, up to its finish reason, where the vendor gave one
	rest         []byte     // what comes after that
}

func (c *choiceState) finished() bool { return c.reason != "" }

func (c choiceStates) allFinished(wanted int) bool {
	for i := range c {
		if c[i].reason == "" {
			return false
		}
	}
	return len(c) > 0 && len(c) >= wanted
}

func (c *choiceStates) at(index int) *choiceState {
	for len(*c) <= index {
		*c = append(*c, choiceState{})
	}
	return &(*c)[index]
}

// follow notes which choices a chunk that passes as it came has started and finished. Which ones matters only where
// the vendor has no end mark.
func (c *choiceStates) follow(list []choice, d *Dialect) {
	if len(*c) > 0 && !d.NoDone {
		return
	}
	for position := range list {
		choice := &list[position]
		if i := choice.indexOr(position); choice.data != nil && i >= 0 && i < maxChoices {
			state := c.at(i)
			if reason := d.finishReason(choice.reason); reason != "" {
				state.reason = reason
			}
		}
	}
}

// appendChoice appends a choice of a chunk up to its finish reason. It returns the array of calls in it, and reports
// whether it says anything.
func (s *stream) appendChoice(dst []byte, state *choiceState, c *choice, index int) (out, calls []byte,
	substance bool) {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(index), 10)
	beginning := !state.started
	state.started = true
	if s.shape.legacy {
		text := c.textValue()
		dst = append(append(dst, `,"text":`...), text...)
		dst = append(dst, `,"logprobs":`...)
		if c.logprobs == nil {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, c.logprobs...)
		}
		return append(dst, `,"finish_reason":`...), nil, isText(text)
	}
	said := &c.said
	from, to := 1, 1 // of the calls
	dst = append(dst, `,"delta":{`...)
	open := len(dst)
	if beginning {
		dst = append(dst, `,"role":"assistant"`...)
	}
	if said.content != nil && (beginning || !saysNothing(said.content)) {
		dst = append(append(dst, `,"content":`...), said.content...)
	}
	if said.refusal != nil {
		dst = append(append(dst, `,"refusal":`...), said.refusal...)
	}
	if said.reasoning != nil {
		dst = append(append(dst, `,"reasoning_content":`...), said.reasoning...)
	}
	if !state.calls.made() {
		if state.carried == nil {
			state.carried = s.carrier(s.asked.Carrier)
		}
		state.carried.add(said)
	}
	state.functionCall = state.functionCall || said.functionCall != nil
	if said.calls != nil {
		before := len(dst)
		dst = append(dst, `,"tool_calls":[`...)
		written := len(dst)
		id := callID{s.id, index, 0, state.carried, s.names}
		if dst = state.calls.appendDelta(dst, said.calls, id); len(dst) == written {
			dst = dst[:before]
		} else {
			dst = append(dst, ']')
			from, to = written-1, len(dst)
		}
	}
	s.annotated = s.annotated || said.annotated
	dst = said.appendOthers(dst, &state.lists)
	if len(dst) > open { // the comma before the first member
		dst = append(dst[:open], dst[open+1:]...)
	}
	dst = append(dst, `},"logprobs":`...)
	dst = appendLogprobs(dst, c.logprobs, said.content)
	return append(dst, `,"finish_reason":`...), dst[from-1 : to-1], said.substance || beginning
}
