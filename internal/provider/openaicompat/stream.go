package openaicompat

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// stream implements provider.Stream.
type stream struct {
	*answer
	events sse.Decoder
	states choiceStates

	// Of an answer that passes as it came.
	patch patch
	model string // JSON: the client's name of the model

	// Of one that is put right.
	id        string // JSON
	head      []byte // how every chunk begins, up to its choices
	scratch   []byte
	last      []byte // the latest chunk that reported usage, kept for a client that asked for it
	found     []byte // the latest chunk that told what a search has found
	annotated bool

	complete bool
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, w *openai.StreamWriter) error {
	s.events.Feed(piece)
	for {
		e, ok, err := s.events.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
		if !ok {
			return nil
		}
		if err := s.event(e, w); err != nil {
			s.release(w)
			return err
		}
	}
}

// Close implements provider.Stream.
func (s *stream) Close(w *openai.StreamWriter) error {
	if e, ok := s.events.Close(); ok {
		// Its blank line is missing. It may be whole nevertheless; half an event is no more than a truncated stream.
		if _, whole := scan(bytes.TrimSpace(e.Data)); whole || isDone(e.Data) {
			if err := s.event(e, w); err != nil {
				s.release(w)
				return err
			}
		}
	}
	if s.dialect.NoDone && s.states.allFinished(s.choices) {
		s.finish(w)
	}
	if !s.complete {
		s.release(w)
		return provider.ErrTruncated
	}
	return nil
}

func (s *stream) event(e sse.Event, w *openai.StreamWriter) error {
	if s.complete {
		return nil
	}
	data := bytes.TrimSpace(e.Data)
	switch {
	case len(data) == 0:
		return nil
	case isDone(data):
		if len(s.states) > 0 { // an end without a beginning is no answer
			s.finish(w)
		}
		return nil
	}
	if bytes.IndexByte(data, '\n') >= 0 { // JSON over several data lines; between tokens any white space will do
		data = bytes.ReplaceAll(data, []byte("\n"), []byte(" "))
	}
	m, ok := scan(data)
	if u := usageOf(data, m); u != nil {
		s.report(u, data, w)
	}
	switch {
	case ok && s.isError(data, m), e.Name == "error", !ok && s.dialect.readError(data).message != "":
		return s.dialect.inBand(data)
	case !ok:
		return fmt.Errorf("%w: an event of its stream is not a JSON object", provider.ErrNotAnAnswer)
	case s.asReceived:
		s.pass(data, m, w)
	default:
		if err := s.chunk(data, m, w); err != nil {
			return err
		}
	}
	if string(m.object.value(data)) == `"chat.completion.done"` && len(s.states) > 0 { // Perplexity's end mark
		s.finish(w)
	}
	return nil
}

// report notes the usage that a chunk reports. Vendors that report more than once count up: the last report counts.
func (s *stream) report(usage, data []byte, w *openai.StreamWriter) {
	u := readUsage(usage)
	if u.IsZero() {
		return
	}
	w.SetUsage(u)
	if w.IncludeUsage() && !s.asReceived {
		s.last = append(s.last[:0], data...)
	}
}

// pass gives a chunk to the client as it came, without the usage that only the gateway asked for, and with the client's
// name of the model where it is another than the provider's.
func (s *stream) pass(data []byte, m members, w *openai.StreamWriter) {
	if !m.choices.found() {
		return // a sign of life, perhaps
	}
	list := m.choices.value(data)
	empty := kindOf(list) != '[' || isEmpty(list)
	s.states.follow(list, s.dialect)
	if s.forced && empty && kindOf(m.usage.value(data)) == '{' {
		return
	}
	s.patch.reset(data)
	if s.renamed && m.model.found() {
		if s.model == "" {
			s.model = quote(w.Model())
		}
		s.patch.set(m.model, 0, "", s.model)
	}
	if s.forced && m.usage.found() {
		s.patch.remove(m.usage)
	}
	w.EventFunc(s.patch.appendTo)
}

// chunk writes a chunk as the client is to see it, one for each of its choices. One without choices is never written:
// clients read choices[0].
func (s *stream) chunk(data []byte, m members, w *openai.StreamWriter) error {
	if m.citations.found() || m.results.found() {
		s.found = append(s.found[:0], data...)
	}
	if s.head == nil && kindOf(m.choices.value(data)) == '[' && !isEmpty(m.choices.value(data)) {
		s.begin(data, m, w)
	}
	i := 0
	var failed error
	eachElement(m.choices.value(data), func(choice []byte) {
		if kindOf(choice) == '{' && failed == nil {
			failed = s.choice(choice, data, i, w)
		}
		i++
	})
	return failed
}

// begin fixes what is the same in every chunk.
func (s *stream) begin(data []byte, m members, w *openai.StreamWriter) {
	s.id = idOf(data, m, s.shape)
	b := append([]byte(`{"id":`), s.id...)
	b = append(append(b, `,"object":`...), s.shape.chunk...)
	b = append(append(b, `,"created":`...), createdOf(data, m, w.Created())...)
	b = openai.AppendString(append(b, `,"model":`...), w.Model())
	s.head = append(b, `,"choices":[`...)
}

// choice writes what a chunk says of a choice. A finish reason is held back until the end: some vendors repeat it, or give
// it before the last text.
func (s *stream) choice(data, chunk []byte, position int, w *openai.StreamWriter) error {
	c := readChoice(data)
	index := c.indexOr(position)
	if index < 0 || index >= maxChoices {
		return nil
	}
	if kindOf(c.fault) == '{' {
		return s.dialect.inBand(data)
	}
	state := s.states.at(index)
	reason := s.dialect.finishReason(c.reason)
	body, substance := s.appendChoice(s.scratch[:0], state, &c, index)
	switch {
	case substance, reason == "" && !state.finished():
		state.held = state.held[:0]
		body = append(body, "null"...)
		s.write(body, &c, chunk, w)
	case reason != "" && reason != "error":
		// The chunk that ends the choice, up to its reason, and what comes after it.
		state.held = append(state.held[:0], body...)
		state.rest = c.appendOthers(state.rest[:0], s.shape)
		state.rest = append(state.rest, '}', ']')
		state.rest = s.appendRest(state.rest, chunk, w)
	}
	s.scratch = body[:0]
	if reason == "error" {
		return errFinish()
	}
	if reason != "" {
		state.reason = reason
	}
	return nil
}

// write writes a chunk whose only choice has been rendered up to its finish reason.
func (s *stream) write(body []byte, c *choice, chunk []byte, w *openai.StreamWriter) {
	w.EventFunc(func(dst []byte) []byte {
		dst = append(append(dst, s.head...), body...)
		dst = append(c.appendOthers(dst, s.shape), '}', ']')
		return s.appendRest(dst, chunk, w)
	})
}

// appendRest appends what a chunk has behind its choices, and ends it. What Groq repeats of the usage, and what a search has
// found, which is told once, are left out.
func (s *stream) appendRest(dst, chunk []byte, w *openai.StreamWriter) []byte {
	eachMember(chunk, func(name, value []byte) {
		switch string(name) {
		case "id", "object", "created", "model", "choices", "usage", "error", "citations", "search_results":
			return
		case "x_groq":
			if bytes.Contains(value, []byte(`"usage"`)) {
				return
			}
		}
		dst = appendMember(dst, name, value)
	})
	if w.IncludeUsage() {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, '}')
}

// release writes what was held back of choices that the vendor has ended.
func (s *stream) release(w *openai.StreamWriter) {
	for i := range s.states {
		if state := &s.states[i]; state.finished() && !state.released && s.head != nil {
			s.end(i, state, w)
		}
	}
}

// end writes what ends a choice: the arguments of calls that have none, what a search has found, and the finish reason.
func (s *stream) end(index int, state *choiceState, w *openai.StreamWriter) {
	state.released = true
	reason := settle(state.reason, state.calls.made())
	if missing := state.calls.appendMissing(nil); len(missing) > 0 && reason != "length" {
		s.delta(index, "tool_calls", append(append([]byte{'['}, missing...), ']'), nil, w)
	}
	if m, ok := scan(s.found); ok && !s.annotated && !s.shape.legacy {
		if found := annotations(m.citations.value(s.found), m.results.value(s.found)); found != nil {
			s.delta(index, "annotations", found, s.found, w)
		}
		s.annotated = true
	}
	if len(state.held) == 0 {
		state.held = s.bare(state.held, index)
		state.rest = s.appendRest(append(state.rest[:0], '}', ']'), nil, w)
	}
	w.EventFunc(func(dst []byte) []byte {
		dst = append(append(dst, s.head...), state.held...)
		dst = append(append(append(dst, '"'), reason...), '"')
		return append(dst, state.rest...)
	})
}

// bare appends a choice that says nothing, up to its finish reason.
func (s *stream) bare(dst []byte, index int) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(index), 10)
	if s.shape.legacy {
		return append(dst, `,"text":"","logprobs":null,"finish_reason":`...)
	}
	return append(dst, `,"delta":{},"logprobs":null,"finish_reason":`...)
}

// delta writes a chunk with one member in its delta, and citations and search_results of the chunk that found has.
func (s *stream) delta(index int, name string, value, found []byte, w *openai.StreamWriter) {
	w.EventFunc(func(dst []byte) []byte {
		dst = strconv.AppendInt(append(append(dst, s.head...), `{"index":`...), int64(index), 10)
		dst = append(dst, `,"delta":{"`...)
		dst = append(append(append(dst, name...), `":`...), value...)
		dst = append(dst, `},"logprobs":null,"finish_reason":null}]`...)
		eachMember(found, func(name, value []byte) {
			if n := string(name); n == "citations" || n == "search_results" {
				dst = appendMember(dst, name, value)
			}
		})
		return s.appendRest(dst, nil, w)
	})
}

// finish ends the stream, with the chunk that reports the usage where the client asked for it.
func (s *stream) finish(w *openai.StreamWriter) {
	s.complete = true
	if !s.asReceived {
		for i := range s.states {
			if state := &s.states[i]; state.started && !state.released {
				s.end(i, state, w)
			}
		}
		if m, ok := scan(s.last); ok {
			w.EventFunc(func(dst []byte) []byte {
				dst = append(append(dst, s.head...), `],"usage":`...)
				dst = appendUsage(dst, usageOf(s.last, m))
				dst = appendOthers(dst, s.last, "id", "object", "created", "model", "choices", "usage", "error", "citations", "search_results", "x_groq")
				return append(dst, '}')
			})
		}
	}
	s.patch, s.last, s.found, s.scratch, s.states = patch{}, nil, nil, nil, nil
	w.Done()
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

func isEmpty(list []byte) bool { return len(bytes.TrimSpace(list[1:len(list)-1])) == 0 }
