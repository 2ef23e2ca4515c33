package openaicompat

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/reported"
	"github.com/modelgate/modelgate/internal/sse"
)

// stream implements provider.Stream.
type stream struct {
	*answer
	asked  chat.Asked
	events sse.Decoder
	read   reading // of the event at hand
	states choiceStates
	passed passed // of an answer that passes as it came
	tier   string

	// Of one that is put right.
	id        string // JSON
	head      []byte // how every chunk begins, up to its choices
	scratch   []byte
	told      reported.Usage
	last      []byte // the latest chunk that reported usage, kept for a client that asked for it
	found     []byte // the latest chunk with a search's results
	annotated bool

	complete bool
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, out chat.Sink) error {
	s.events.Feed(piece)
	if s.asReceived {
		s.passed.feed(piece)
	}
	for !s.complete {
		e, ok, err := s.events.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		}
		if !ok {
			break
		}
		if err := s.event(e, out); err != nil {
			s.release(out)
			return err
		}
	}
	if s.asReceived && !s.complete {
		return s.passed.idle(out)
	}
	return nil
}

// Close implements provider.Stream.
func (s *stream) Close(out chat.Sink) error {
	if e, ok := s.events.Close(); ok && !s.complete {
		// Its blank line is missing. It may be whole nevertheless; half an event is no more than a truncated stream.
		whole := s.read.read(bytes.TrimSpace(e.Data), "delta")
		whole = whole || isDone(e.Data)
		if whole && s.asReceived {
			s.passed.feed([]byte("\n\n"))
		}
		if whole {
			if err := s.event(e, out); err != nil {
				s.release(out)
				return err
			}
		}
	}
	if s.dialect.NoDone && s.states.allFinished(s.choices) && !s.complete {
		s.finish(out)
		s.end(out)
	}
	if !s.complete {
		s.release(out)
		return provider.ErrTruncated
	}
	return nil
}

// event takes the next event. Of an answer that passes as it came everything does that is no error.
func (s *stream) event(e sse.Event, out chat.Sink) error {
	raw := s.passed.take(s.events.Pending(), out)
	data := s.text(e.Data)
	switch {
	case len(data) == 0:
		if s.passed.begun {
			s.passed.comment(out, raw)
			s.passed.taken()
		}
		return nil
	case isDone(data):
		if len(s.states) > 0 { // an end without a beginning is no answer
			s.finish(out)
			s.passed.comment(out, raw)
			s.end(out)
		}
		return nil
	}
	if bytes.IndexByte(data, '\n') >= 0 { // JSON over several data lines; between tokens any white space will do
		data = bytes.ReplaceAll(data, []byte("\n"), []byte(" "))
	}
	defer s.read.clear()
	ok := s.read.read(data, "delta")
	if u := s.read.reported(); u != nil {
		s.report(u, data, out)
	}
	if t := s.read.tier.value(data); kindOf(t) == '"' && string(t[1:len(t)-1]) != s.tier {
		s.tier = string(t[1 : len(t)-1])
		out.Put(chat.Tier(s.tier))
	}
	switch {
	case ok && s.isError(data, &s.read.members), e.Name == "error", !ok && s.dialect.readError(data).message != "":
		return s.dialect.inBand(data)
	case !ok:
		return fmt.Errorf("%w: an event of its stream is not a JSON object", provider.ErrNotAnAnswer)
	case s.asReceived:
		s.pass(raw, out)
	default:
		if err := s.chunk(out); err != nil {
			return err
		}
	}
	if string(s.read.object.value(data)) == `"chat.completion.done"` && len(s.states) > 0 { // Perplexity's end mark
		s.finish(out)
		s.end(out)
	}
	return nil
}

// report notes the usage that a chunk reports. Vendors that report more than once count up.
func (s *stream) report(usage, data []byte, out chat.Sink) {
	later := reported.Read(usage)
	if later.OpenAI().IsZero() {
		return
	}
	s.told.Later(&later)
	u := s.told.OpenAI()
	out.Put(chat.Event{Kind: chat.KindUsage, Covered: true, Usage: &u})
	if s.asked.IncludeUsage && !s.asReceived {
		s.last = append(s.last[:0], data...)
	}
}

// maxRepeated bounds what the choices of one chunk repeat of it, in bytes, beside some times its size: each becomes a
// chunk of its own.
const maxRepeated = 1 << 20

// chunk writes a chunk as the client is to see it, one for each of its choices. One without choices is never written:
// clients read choices[0].
func (s *stream) chunk(out chat.Sink) error {
	r := &s.read
	if r.citations.found() || r.results.found() {
		s.found = append(s.found[:0], r.data...)
	}
	if s.head == nil && len(r.choices) > 0 {
		s.begin(out)
	}
	if n := len(r.choices); n > 1 && n*r.repeated() > maxRepeated+16*len(r.data) {
		return fmt.Errorf("%w: an event of its stream has too many choices", provider.ErrNotAnAnswer)
	}
	for i := range r.choices {
		if c := &r.choices[i]; c.data != nil {
			if err := s.choice(c, i, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin fixes what is the same in every chunk.
func (s *stream) begin(out chat.Sink) {
	r := &s.read
	s.id = idOf(&s.read, s.shape)
	b := append([]byte(`{"id":`), s.id...)
	b = append(append(b, `,"object":`...), s.shape.chunk...)
	b = append(append(b, `,"created":`...), createdOf(&s.read, s.asked.Created)...)
	b = openai.AppendString(append(b, `,"model":`...), s.asked.Model)
	s.head = append(b, `,"choices":[`...)
	tellBeginning(s.id, r.created.value(r.data), out)
}

// choice writes what a chunk says of a choice. A finish reason is held back until the end: some vendors repeat it, or
// give it before the last text.
func (s *stream) choice(c *choice, position int, out chat.Sink) error {
	index := c.indexOr(position)
	if index < 0 || index >= maxChoices {
		return nil
	}
	if kindOf(c.fault) == '{' {
		return s.dialect.inBand(c.data)
	}
	state := s.states.at(index)
	reason := s.dialect.finishReason(c.reason)
	if !state.started {
		out.Put(covered(chat.Role(index)))
	}
	chunk, calls, substance := s.appendChoice(append(s.scratch[:0], s.head...), state, c, index)
	s.scratch = chunk[:0]
	if len(state.calls) >= provider.MaxOpen {
		return provider.ErrTooManyOpen
	}
	switch {
	case c.said.listed && !substance && reason == "": // nothing is left of it until the end
	case substance, reason == "" && !state.finished():
		state.held = state.held[:0]
		c.tell(s.shape, index, calls, out)
		chunk = append(c.appendOthers(append(chunk, "null"...), s.shape), '}', ']')
		s.put(s.appendRest(chunk, &s.read), out)
	case reason != "" && reason != "error":
		// The chunk that ends the choice, up to its reason, and what comes after it.
		c.tell(s.shape, index, calls, out)
		state.held = append(state.held[:0], chunk[len(s.head):]...)
		state.rest = c.appendOthers(state.rest[:0], s.shape)
		state.rest = append(state.rest, '}', ']')
		state.rest = s.appendRest(state.rest, &s.read)
	}
	if reason == "error" {
		return errFinish()
	}
	if reason != "" {
		state.reason = reason
	}
	return nil
}

// put tells a chunk in raw form, which is in the scratch space.
func (s *stream) put(chunk []byte, out chat.Sink) {
	out.Put(chat.Event{Kind: chat.KindChunk, JSON: chunk})
	s.scratch = chunk[:0]
}

// appendRest appends the members of a chunk after its choices, and ends it. It leaves out Groq's repeated usage,
// and a search's results, which are sent once.
func (s *stream) appendRest(dst []byte, r *reading) []byte {
	groq := r.groq
	if !bytes.Contains(groq.value(r.data), []byte(`"usage"`)) {
		groq = span{}
	}
	dst = r.appendOthers(dst, r.citations, r.results, groq)
	if s.asked.IncludeUsage {
		dst = append(dst, `,"usage":null`...)
	}
	return append(dst, '}')
}

// release writes what was held back of choices that the vendor has ended.
func (s *stream) release(out chat.Sink) {
	for i := range s.states {
		if state := &s.states[i]; state.finished() && !state.released && s.head != nil {
			s.endChoice(i, state, out)
		}
	}
}

// endChoice writes what ends a choice: the arguments of calls that have none, what a search has found, and the finish
// reason.
func (s *stream) endChoice(index int, state *choiceState, out chat.Sink) {
	state.released = true
	reason := settle(state.reason, state.calls.made(), state.functionCall)
	if missing := state.calls.appendMissing(nil); len(missing) > 0 && reason != "length" {
		calls := append(append([]byte{'['}, missing...), ']')
		tellCalls(calls, index, out)
		s.delta(index, "tool_calls", calls, nil, out)
	}
	state.lists.each(func(name string, list []byte) {
		out.Put(covered(chat.Member(index, name, list)))
		s.delta(index, name, list, nil, out)
	})
	if m, ok := scan(s.found); ok && !s.annotated && !s.shape.legacy {
		if found := annotations(m.citations.value(s.found), m.results.value(s.found)); found != nil {
			out.Put(covered(chat.Member(index, "annotations", found)))
			s.delta(index, "annotations", found, s.found, out)
		}
		s.annotated = true
	}
	if len(state.held) == 0 {
		state.held = s.bare(state.held, index)
		state.rest = s.appendRest(append(state.rest[:0], '}', ']'), &reading{})
	}
	out.Put(covered(chat.Finish(index, reason)))
	chunk := append(append(s.scratch[:0], s.head...), state.held...)
	chunk = append(append(append(chunk, '"'), reason...), '"')
	s.put(append(chunk, state.rest...), out)
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
func (s *stream) delta(index int, name string, value, found []byte, out chat.Sink) {
	dst := strconv.AppendInt(append(append(s.scratch[:0], s.head...), `{"index":`...), int64(index), 10)
	dst = append(dst, `,"delta":{"`...)
	dst = append(append(append(dst, name...), `":`...), value...)
	dst = append(dst, `},"logprobs":null,"finish_reason":null}]`...)
	eachMember(found, func(name, value []byte) {
		if n := string(name); n == "citations" || n == "search_results" {
			dst = appendMember(dst, name, value)
		}
	})
	s.put(s.appendRest(dst, &reading{}), out)
}

// finish writes what the end of the stream completes, with the chunk that reports the usage where the client asked for
// it.
func (s *stream) finish(out chat.Sink) {
	if s.asReceived {
		return
	}
	for i := range s.states {
		if state := &s.states[i]; state.started && !state.released {
			s.endChoice(i, state, out)
		}
	}
	var r reading
	if r.read(s.last, "delta") {
		dst := append(append(s.scratch[:0], s.head...), `],"usage":`...)
		at := len(dst)
		u := s.told.OpenAI()
		dst = appendUsage(dst, r.reported(), &u)
		out.Put(chat.Event{Kind: chat.KindUsage, Covered: true, Usage: &u, JSON: dst[at:]})
		s.put(append(r.appendOthers(dst, r.citations, r.results, r.groq), '}'), out)
	}
}

// end marks the end of the stream. One that passes as it came has the vendor's own mark, or none.
func (s *stream) end(out chat.Sink) {
	s.complete = true
	s.passed, s.last, s.found, s.scratch, s.states = passed{}, nil, nil, nil, nil
	e := chat.End()
	e.Covered = s.asReceived
	out.Put(e)
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

func isEmpty(list []byte) bool { return len(bytes.TrimSpace(list[1:len(list)-1])) == 0 }
