package converse

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/eventstream"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/reported"
)

// An event is the payload of one frame, all kinds in one. Its padding, "p", is ignored.
type event struct {
	ContentBlockIndex int `json:"contentBlockIndex"`
	Start             struct {
		ToolUse *toolUse       `json:"toolUse"`
		Others  jsontext.Value `json:",embed"`
	} `json:"start"`
	Delta      delta          `json:"delta"`
	StopReason string         `json:"stopReason"`
	Usage      reported.Usage `json:"usage"`

	ServiceTier serviceTier `json:"serviceTier"`
}

type delta struct {
	Text    string `json:"text"`
	ToolUse struct {
		Input jsontext.Value `json:"input"`
	} `json:"toolUse"`
	ReasoningContent struct {
		Text            string `json:"text"`
		Signature       string `json:"signature"`
		RedactedContent string `json:"redactedContent"`
	} `json:"reasoningContent"`
	Citation *citation `json:"citation"`
}

// A blockKind is the client's kind for a content block.
type blockKind byte

const (
	saidBlock   blockKind = iota // text or reasoning, which do not say at their start what they are
	callBlock                    // a call that the client answers
	answerBlock                  // the call of the answer tool
)

// An openBlock is a content block that has begun and has not stopped.
type openBlock struct {
	index     int // the vendor's, which counts blocks of all kinds
	kind      blockKind
	call      int            // of a call, the client's index
	input     jsontext.Value // of a call, the input that came at its start
	begun     bool           // of a call, some of the arguments were written
	start     int            // where in the content the block begins, in characters
	thinking  []byte
	signature []byte
	redacted  []byte
	citations []citation
}

// A stream decodes one streamed answer. The vendor says what was used in an event after the last of the answer, or
// before.
type stream struct {
	answer *answer
	frames eventstream.Decoder
	event  event // the one that is being read, kept so that none is allocated

	open     []openBlock
	ignored  []int // indexes of open blocks that are not the client's
	calls    int
	thoughts thoughts
	length   int // of the content, in characters
	begun    bool
	stopped  bool
	counted  bool
	ended    bool  // the End was sent
	created  int64 // see chat.Asked

	annotations []jsontext.Value

	// With an answer tool, text is held back until it is certain that the tool will not be called.
	held     []byte
	answered bool
}

// Decode takes the next piece of a body.
func (s *stream) Decode(piece []byte, out chat.Sink) error {
	s.frames.Feed(piece)
	for {
		f, ok, err := s.frames.Next()
		switch {
		case err != nil && s.stopped:
			return nil // the answer is complete
		case err != nil:
			return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
		case !ok || s.ended:
			return nil
		}
		if err := s.frame(f, out); err != nil {
			return err
		}
	}
}

// Close ends the stream, which is complete where the vendor said why the answer stopped.
func (s *stream) Close(out chat.Sink) error {
	if !s.stopped {
		return provider.ErrTruncated
	}
	if !s.ended {
		s.done(out)
	}
	return nil
}

func (s *stream) frame(f eventstream.Frame, out chat.Sink) error {
	if err := FrameError(f); err != nil {
		return err
	}
	typ := f.Header(":event-type")
	switch string(typ) {
	case "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
	default:
		return nil
	}
	s.event = event{}
	e := &s.event
	if err := json.Unmarshal(f.Payload, e, provider.Lenient); err != nil {
		return fmt.Errorf("%w: event %s: %w", provider.ErrNotAnAnswer, typ, err)
	}
	if !s.begun {
		s.begun = true
		out.Put(chat.Begin(s.answer.id(s.created, f.Payload)))
		out.Put(chat.Role(0))
	}
	switch {
	case string(typ) == "metadata":
		if u := e.Usage.OpenAI(); !u.IsZero() { // another may tell how long it took alone
			s.counted = true
			out.Put(chat.Usage(u))
		}
		out.Put(chat.Tier(clientTier(e.ServiceTier.Type)))
		if s.stopped && s.counted {
			s.done(out)
		}
	case s.stopped:
	case len(s.open)+len(s.ignored) > provider.MaxOpen:
		return provider.ErrTooManyOpen
	case string(typ) == "contentBlockStart":
		s.startBlock(e, out)
	case string(typ) == "contentBlockDelta":
		s.delta(e, out)
	case string(typ) == "contentBlockStop":
		s.stopBlock(e.ContentBlockIndex, out)
	case string(typ) == "messageStop":
		return s.stop(e.StopReason, out)
	}
	return nil
}

func (s *stream) startBlock(e *event, out chat.Sink) {
	t := e.Start.ToolUse
	// of text and reasoning some models announce the block, and say nothing of it
	if t == nil && len(e.Start.Others) == 0 {
		return
	}
	if t == nil || !t.isClients() {
		s.ignored = append(s.ignored, e.ContentBlockIndex)
		return
	}
	b := openBlock{index: e.ContentBlockIndex, kind: callBlock, input: messages.CompactObject(t.Input)}
	if s.answer.answerTool != "" && t.Name == s.answer.answerTool {
		if s.answered {
			s.ignored = append(s.ignored, e.ContentBlockIndex)
			return
		}
		b.kind, s.answered, s.held = answerBlock, true, nil
	} else {
		s.endThoughts(out)
		b.call = s.calls
		s.calls++
		out.Put(chat.ToolCall(0, b.call, s.thoughts.callID(t.ToolUseID), s.answer.names.Client(t.Name)))
	}
	s.open = append(slices.DeleteFunc(s.open, func(o openBlock) bool { return o.index == b.index }), b)
}

// block returns the open block of an index, which begins here if it is none.
func (s *stream) block(index int) *openBlock {
	i := slices.IndexFunc(s.open, func(b openBlock) bool { return b.index == index })
	if i < 0 {
		i = len(s.open)
		s.open = append(s.open, openBlock{index: index, start: s.length})
	}
	return &s.open[i]
}

func (s *stream) delta(e *event, out chat.Sink) {
	if slices.Contains(s.ignored, e.ContentBlockIndex) {
		return
	}
	b, d := s.block(e.ContentBlockIndex), &e.Delta
	if b.kind != saidBlock {
		s.arguments(b, fragment(d.ToolUse.Input), out)
		return
	}
	if r := &d.ReasoningContent; r.Text != "" {
		b.thinking = append(b.thinking, r.Text...)
		out.Put(chat.Reasoning(0, r.Text))
	}
	b.signature = append(b.signature, d.ReasoningContent.Signature...)
	b.redacted = appendRedacted(b.redacted, d.ReasoningContent.RedactedContent)
	s.text(d.Text, out)
	if d.Citation != nil {
		b.citations = append(b.citations, *d.Citation)
	}
}

// fragment returns a piece of a tool's input, which comes as a string and may break anywhere.
func fragment(input jsontext.Value) string {
	if input.Kind() != '"' {
		return string(input)
	}
	text, _ := jsontext.AppendUnquote(nil, input) // the error only reports invalid UTF-8, which is replaced
	return string(text)
}

func (s *stream) arguments(b *openBlock, fragment string, out chat.Sink) {
	switch {
	case fragment == "":
		return
	case b.kind == callBlock:
		out.Put(chat.Arguments(0, b.call, fragment))
	default:
		out.Put(chat.Text(0, fragment))
	}
	b.begun = true
}

func (s *stream) text(t string, out chat.Sink) {
	switch {
	case t == "" || s.answered:
	case s.answer.answerTool != "":
		s.held = append(s.held, t...)
	default:
		s.length += utf8.RuneCountInString(t)
		out.Put(chat.Text(0, t))
	}
}

// stopBlock completes a block: a call without arguments gets those it started with, and what was signed or cited is
// kept for the end.
func (s *stream) stopBlock(index int, out chat.Sink) {
	s.ignored = slices.DeleteFunc(s.ignored, func(i int) bool { return i == index })
	i := slices.IndexFunc(s.open, func(b openBlock) bool { return b.index == index })
	if i < 0 {
		return
	}
	b := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	if b.kind != saidBlock {
		if !b.begun {
			s.arguments(&b, string(b.input), out)
		}
		return
	}
	if t := s.thoughts.add(string(b.thinking), string(b.signature), b.redacted); t != nil {
		out.Put(chat.Signed(0, t.AppendJSON(nil)))
	}
	if s.answer.answerTool == "" {
		s.annotations = annotate(s.annotations, b.citations, b.start, s.length)
	}
}

// endThoughts stops what is open before a call, which carries the reasoning that led to it.
func (s *stream) endThoughts(out chat.Sink) {
	for i := 0; i < len(s.open); {
		if s.open[i].kind == saidBlock {
			s.stopBlock(s.open[i].index, out)
		} else {
			i++
		}
	}
}

func (s *stream) stop(reason string, out chat.Sink) error {
	finish, err := finishReason(reason, s.calls > 0)
	if err != nil {
		return err
	}
	for len(s.open) > 0 {
		s.stopBlock(s.open[0].index, out)
	}
	if len(s.held) > 0 {
		out.Put(chat.Text(0, string(s.held)))
	}
	// Lists are given whole: openai-python's accumulator fails if a second delta adds to one.
	if s.annotations != nil {
		out.Put(chat.Member(0, "annotations", array(s.annotations)))
	}
	if len(s.thoughts.all) > 0 {
		out.Put(chat.Member(0, "thinking_blocks", thinkingBlocks(s.thoughts.all)))
	}
	out.Put(chat.Finish(0, finish))
	s.stopped = true
	if s.counted {
		s.done(out)
	}
	return nil
}

// done writes the end of the stream.
func (s *stream) done(out chat.Sink) {
	s.ended = true
	out.Put(chat.End())
}
