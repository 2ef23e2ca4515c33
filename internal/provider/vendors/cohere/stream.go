package cohere

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
	"github.com/modelgate/modelgate/internal/sse"
)

// An event is one event of a stream, all kinds in one. In content, tool_calls and citations stand arrays where a
// message begins, which are empty, and objects otherwise.
type event struct {
	ID    string `json:"id"`
	Index int    `json:"index"`
	Delta struct {
		Message struct {
			Content   jsontext.Value `json:"content"`
			ToolPlan  string         `json:"tool_plan"`
			ToolCalls jsontext.Value `json:"tool_calls"`
			Citations jsontext.Value `json:"citations"`
		} `json:"message"`
		FinishReason string         `json:"finish_reason"`
		Error        jsontext.Value `json:"error"`
		Usage        reported.Usage `json:"usage"`
	} `json:"delta"`
	Logprobs *logprobs `json:"logprobs"`
}

// An openCall is a tool call that was started and not yet ended.
type openCall struct {
	index int    // the vendor's
	call  int    // the client's
	held  string // arguments that may yet turn out to be null
	begun bool   // some of the arguments were written
}

// stream implements provider.Stream.
type stream struct {
	names   *turns.Names
	events  sse.Decoder
	event   event // the one that is being read, kept so that none is allocated
	id      string
	begun   bool
	done    bool
	open    []openCall
	calls   int
	runes   int   // of the text so far
	offsets []int // in runes, where each block of content begins

	annotations []byte // the citations so far, an array that is not closed; may be nil
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
	if e, ok := s.events.Close(); ok && !s.done && jsonwalk.Valid(e.Data) {
		if err := s.take(e, out); err != nil {
			return err
		}
	}
	if !s.done {
		return provider.ErrTruncated
	}
	return nil
}

func (s *stream) take(raw sse.Event, out chat.Sink) error {
	data := bytes.TrimSpace(raw.Data)
	if s.done || len(data) == 0 || string(data) == "[DONE]" { // the message's own end comes before [DONE]
		return nil
	}
	typ := cmp.Or(gjson.GetBytes(data, "type").Str, raw.Name)
	switch {
	case typ == "error", typ == "" && readError(data).message != "":
		return inBand(data)
	case !known(typ) && jsonwalk.Valid(data):
		return nil // debug, and what the vendor may add
	}
	s.event = event{}
	e := &s.event
	if err := json.Unmarshal(data, e, provider.Lenient); err != nil {
		return fmt.Errorf("%w: an event of its stream: %w", provider.ErrNotAnAnswer, err)
	}
	switch {
	case typ == "message-start":
		if !s.begun {
			s.begun, s.id = true, cmp.Or(provider.ID(e.ID), newID())
			out.Put(chat.Begin(s.id)) // and no more: an error that comes before any content still has a status of its own
		}
		return nil
	case !s.begun:
		return fmt.Errorf("%w: event %s before message-start", provider.ErrNotAnAnswer, typ)
	}
	return s.delta(typ, e, out)
}

func known(typ string) bool {
	switch typ {
	case "message-start", "content-start", "content-delta", "tool-plan-delta", "tool-call-start", "tool-call-delta",
		"tool-call-end",
		"citation-start", "message-end":
		return true
	}
	return false
}

// delta writes what an event of a message that has begun means to the client.
func (s *stream) delta(typ string, e *event, out chat.Sink) error {
	m := &e.Delta.Message
	switch typ {
	case "content-start", "content-delta":
		if typ == "content-start" {
			s.startBlock(e.Index)
		}
		var b contentBlock
		if err := unmarshalObject(m.Content, &b); err != nil {
			return err
		}
		s.content(&b, e.Logprobs, out)
	case "tool-plan-delta":
		if m.ToolPlan != "" {
			out.Put(chat.Reasoning(0, m.ToolPlan))
		}
	case "tool-call-start", "tool-call-delta", "tool-call-end":
		var c toolCall
		if err := unmarshalObject(m.ToolCalls, &c); err != nil {
			return err
		}
		if len(s.open) > provider.MaxOpen {
			return provider.ErrTooManyOpen
		}
		s.call(typ, e.Index, &c, out)
	case "citation-start":
		var c citation
		if err := unmarshalObject(m.Citations, &c); err != nil {
			return err
		}
		s.annotations = c.appendTo(s.annotations, s.offsets)
	case "message-end":
		return s.end(e, out)
	}
	return nil
}

// unmarshalObject reads an object. Anything else leaves to as it is.
func unmarshalObject(v jsontext.Value, to any) error {
	if v.Kind() != '{' {
		return nil
	}
	if err := json.Unmarshal(v, to, provider.Lenient); err != nil {
		return fmt.Errorf("%w: an event of its stream: %w", provider.ErrNotAnAnswer, err)
	}
	return nil
}

// maxBlocks bounds what is kept of where blocks begin.
const maxBlocks = 1 << 10

func (s *stream) startBlock(index int) {
	for len(s.offsets) <= index && index < maxBlocks {
		s.offsets = append(s.offsets, s.runes)
	}
}

func (s *stream) content(b *contentBlock, l *logprobs, out chat.Sink) {
	if thinking := stringOf(b.Thinking); thinking != "" {
		out.Put(chat.Reasoning(0, thinking))
	}
	text := stringOf(b.Text)
	if text == "" {
		return
	}
	s.runes += utf8.RuneCountInString(text)
	e := chat.Text(0, text)
	if l != nil {
		e.Logprobs = appendLogprobs(nil, *l)
	}
	out.Put(e)
}

// call writes a piece of a tool call.
func (s *stream) call(typ string, index int, c *toolCall, out chat.Sink) {
	at := -1
	for i := range s.open {
		if s.open[i].index == index {
			at = i
		}
	}
	switch {
	case typ == "tool-call-start":
		if at >= 0 {
			s.endCall(at, out)
		}
		out.Put(chat.ToolCall(0, s.calls, cmp.Or(c.ID, madeID(s.id, s.calls)), s.names.Client(c.Function.Name)))
		s.open = append(s.open, openCall{index: index, call: s.calls})
		at = len(s.open) - 1
		s.calls++
	case at < 0:
		return
	case typ == "tool-call-end":
		s.endCall(at, out)
		return
	}
	s.open[at].write(c, out)
}

// maxHeld bounds what is held back of arguments: null, and white space around it.
const maxHeld = 256

// write writes a fragment of the arguments. A model that has no arguments may say null, which no client can use: what
// may become null is held back.
func (o *openCall) write(c *toolCall, out chat.Sink) {
	fragment := stringOf(c.Function.Arguments)
	if c.Function.Arguments.Kind() == '{' {
		fragment = string(c.Function.Arguments)
	}
	if !o.begun {
		o.held += fragment
		if fragment = o.held; len(o.held) <= maxHeld && strings.HasPrefix("null", strings.TrimSpace(fragment)) {
			return
		}
		o.held = ""
	}
	if fragment != "" {
		o.begun = true
		out.Put(chat.Arguments(0, o.call, fragment))
	}
}

func (s *stream) endCall(at int, out chat.Sink) {
	if o := s.open[at]; !o.begun {
		out.Put(chat.Arguments(0, o.call, "{}"))
	}
	s.open = append(s.open[:at], s.open[at+1:]...)
}

// end completes the answer, or fails if the vendor says that it did.
func (s *stream) end(e *event, out chat.Sink) error {
	u := e.Delta.Usage.OpenAI()
	if !u.IsZero() {
		out.Put(chat.Usage(u))
	}
	if err := failure(e.Delta.FinishReason, stringOf(e.Delta.Error)); err != nil {
		return err
	}
	for len(s.open) > 0 {
		s.endCall(0, out)
	}
	if s.annotations != nil {
		// As a whole: openai-python's accumulator fails if a second delta adds to a list.
		out.Put(chat.Member(0, "annotations", append(s.annotations, ']')))
	}
	out.Put(chat.Finish(0, finishReason(e.Delta.FinishReason, s.calls > 0)))
	out.Put(chat.End())
	s.done = true
	return nil
}

// newID is for an answer that has no id.
func newID() string { return "chatcmpl-" + rand.Text() }

// madeID is the id of a tool call that has none.
func madeID(answer string, index int) string { return "call_" + answer + "_" + strconv.Itoa(index) }
