package mistral

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/reported"
	"github.com/modelgate/modelgate/internal/sse"
)

// stream implements provider.Stream.
type stream struct {
	answer  *answer
	events  sse.Decoder
	chunk   response // the one that is being read, kept so that none is allocated
	id      string
	choices []choiceState
	usage   reported.Usage
	done    bool
}

// maxChoices is the most choices that a request can ask for.
const maxChoices = 128

// A choiceState is the state of a choice so far.
type choiceState struct {
	calls   []openCall // of all tools, the vendor's own included
	shown   int        // how many of them are the client's
	started bool
	reason  string // the latest; sent at the end, because more of the answer may come after it
}

type openCall struct {
	id    string
	index int  // the vendor's
	call  int  // the client's, or -1 if the call is not the client's
	begun bool // some of the arguments were written
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, out chat.Sink) error {
	err := s.events.Each(piece, func(e sse.Event) error { return s.take(e, out) })
	if errors.Is(err, sse.ErrTooLarge) {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	return err
}

// Close implements provider.Stream. What is left where the last event has no blank line may be half of one.
func (s *stream) Close(out chat.Sink) error {
	if e, ok := s.events.Close(); ok && (isDone(e.Data) || jsonwalk.Valid(e.Data)) {
		if err := s.take(e, out); err != nil {
			return err
		}
	}
	if !s.done {
		return provider.ErrTruncated
	}
	return nil
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }

func (s *stream) take(e sse.Event, out chat.Sink) error {
	switch {
	case s.done || len(bytes.TrimSpace(e.Data)) == 0:
		return nil
	case isDone(e.Data):
		s.end(out)
		return nil
	}
	s.chunk = response{Choices: s.chunk.Choices[:0]}
	r := &s.chunk
	if err := json.Unmarshal(e.Data, r, provider.Lenient); err != nil {
		return fmt.Errorf("%w: an event of its stream: %w", provider.ErrNotAnAnswer, err)
	}
	if e.Name == "error" || r.isError() {
		return inBand(e.Data)
	}
	s.usage.Later(&r.Usage)
	if u := r.Usage.OpenAI(); !u.IsZero() {
		out.Put(chat.Usage(s.usage.OpenAI()))
	}
	for i := range r.Choices {
		if s.id == "" {
			s.id = cmp.Or(provider.ID(r.ID), newID())
			out.Put(chat.Begin(s.id))
		}
		if err := s.choice(&r.Choices[i], out); err != nil {
			return err
		}
	}
	return nil
}

// choice writes what a choice of a chunk means to the client: content, calls and the end, in this order, though the
// vendor may send them all in one chunk.
func (s *stream) choice(c *choice, out chat.Sink) error {
	if c.Index < 0 || c.Index >= maxChoices {
		return nil
	}
	for len(s.choices) <= c.Index {
		s.choices = append(s.choices, choiceState{})
	}
	state := &s.choices[c.Index]
	state.started = true
	if !c.Delta.isResult() {
		err := readContent(c.Delta.Content, func(t string) { out.Put(chat.Text(c.Index, t)) },
			func(t string) { out.Put(chat.Reasoning(c.Index, t)) })
		if err != nil {
			return err
		}
		for i := range c.Delta.ToolCalls {
			if len(state.calls) > provider.MaxOpen {
				return provider.ErrTooManyOpen
			}
			s.call(c.Index, &c.Delta.ToolCalls[i], out)
		}
	}
	if c.FinishReason == "error" {
		return errFailed()
	}
	state.reason = cmp.Or(c.FinishReason, state.reason)
	return nil
}

// call writes a call, which may be whole or a piece of one that was begun.
func (s *stream) call(choice int, c *toolCall, out chat.Sink) {
	state := &s.choices[choice]
	open := state.find(c)
	if open == nil {
		if c.Function.Name == "" {
			return
		}
		state.calls = append(state.calls, openCall{id: c.id(), index: c.Index, call: -1})
		open = &state.calls[len(state.calls)-1]
		if s.answer.isOwn(c.Function.Name) {
			open.call = state.shown
			state.shown++
			out.Put(chat.ToolCall(choice, open.call, cmp.Or(open.id, madeID(s.id, choice, open.call)),
				s.answer.names.Client(c.Function.Name)))
		}
	}
	fragment := c.arguments()
	if !open.begun && strings.TrimSpace(fragment) == "null" {
		return // no arguments, which no client can read so
	}
	if fragment != "" && open.call >= 0 {
		open.begun = true
		out.Put(chat.Arguments(choice, open.call, fragment))
	}
}

// find returns the call that a piece belongs to, or nil if it begins one. Not every model says an index; one that
// sends calls in pieces gives the id with the first alone.
func (s *choiceState) find(c *toolCall) *openCall {
	for i := len(s.calls) - 1; i >= 0; i-- {
		o := &s.calls[i]
		switch id := c.id(); {
		case id != "" && id == o.id:
			return o
		case id == "" && c.Function.Name == "" && c.Index == o.index:
			return o
		}
	}
	return nil
}

func (s *stream) finish(choice int, out chat.Sink) {
	state := &s.choices[choice]
	for _, o := range state.calls {
		if o.call >= 0 && !o.begun {
			out.Put(chat.Arguments(choice, o.call, "{}"))
		}
	}
	out.Put(chat.Finish(choice, finishReason(state.reason, state.shown > 0)))
}

// end completes the answer. An end without a beginning is none.
func (s *stream) end(out chat.Sink) {
	for i := range s.choices {
		if s.choices[i].started {
			s.finish(i, out)
			s.done = true
		}
	}
	if !s.done {
		return
	}
	out.Put(chat.End())
}
