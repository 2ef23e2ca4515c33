package messages

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/reported"
	"github.com/modelgate/modelgate/internal/sse"
)

// An event is one event of a stream, all kinds in one.
type event struct {
	Type         string         `json:"type"`
	Index        int            `json:"index"`
	Message      message        `json:"message"`
	ContentBlock contentBlock   `json:"content_block"`
	Delta        delta          `json:"delta"`
	Usage        reported.Usage `json:"usage"`
}

type delta struct {
	Type        string      `json:"type"`
	Text        string      `json:"text"`
	PartialJSON string      `json:"partial_json"`
	Thinking    string      `json:"thinking"`
	Signature   string      `json:"signature"`
	StopReason  string      `json:"stop_reason"`
	StopDetails stopDetails `json:"stop_details"`
	Citation    citation    `json:"citation"`

	plain []byte // the text as JSON, in place of Text, if it has no escapes: see readDelta
}

// An openBlock is a content block that was started and not yet stopped.
type openBlock struct {
	index     int // the vendor's, which counts blocks of all types
	kind      string
	call      int            // of a tool call, the client's index
	input     jsontext.Value // of a tool call, the input that came at its start
	begun     bool           // of a tool call, some of the arguments were written
	thinking  []byte
	signature []byte
	data      string
	from      int        // of a text, where in the content it begins
	citations []citation // of a text
}

// Kinds of blocks beside the vendor's own text, thinking, redacted_thinking and tool_use.
const (
	kindAnswer  = "answer" // the call of the answer tool
	kindIgnored = ""
)

// A Stream decodes one streamed answer. It implements provider.Stream; a vendor that frames events in its own way
// gives them to Event instead.
type Stream struct {
	answer  *Answer
	carrier openai.Carrier
	sse     sse.Decoder
	event   event // the one that is being read, kept so that none is allocated

	id          string
	begun, done bool
	open        []openBlock
	calls       int       // tool calls so far
	thoughts    []Thought // since the last of them
	characters  int       // of the content so far

	// Lists are given whole, before the end: openai-python's accumulator fails if a second delta adds to one.
	signed      []Thought // all thoughts
	annotations []byte    // with commas between them

	usage   reported.Usage
	stop    string
	details stopDetails

	// With an answer tool, text is held back until it is certain that the tool will not be called: what the model says
	// before it would spoil the JSON.
	held     []byte
	answered bool
}

// Stream returns a decoder for one streamed answer.
func (a *Answer) Stream(asked chat.Asked) provider.Stream {
	return &Stream{answer: a, carrier: asked.Carrier}
}

// Decode takes the next piece of a body of server-sent events.
func (s *Stream) Decode(piece []byte, out chat.Sink) error {
	s.sse.Feed(piece)
	for {
		e, ok, err := s.sse.Next()
		if err != nil {
			return fmt.Errorf("reading the provider's stream: %w", err)
		}
		if !ok {
			return nil
		}
		if err := s.Event(e.Data, out); err != nil {
			return err
		}
	}
}

// Close ends the stream, which is complete only where the vendor said so. What is left where the last event has no
// blank line may be half of one.
func (s *Stream) Close(out chat.Sink) error {
	if e, ok := s.sse.Close(); ok && jsonwalk.Valid(e.Data) {
		if err := s.Event(e.Data, out); err != nil {
			return err
		}
	}
	if !s.done {
		return provider.ErrTruncated
	}
	return nil
}

// Event takes the data of one event. An error that the vendor sends in band is an *openai.Error.
func (s *Stream) Event(data []byte, out chat.Sink) error {
	if s.done {
		return nil
	}
	e := &s.event
	invalid := e.read(data)
	typ := e.Type
	switch {
	case typ == "error", typ == "" && gjson.GetBytes(data, "error").Exists():
		return readError(data).decode(0, nil)
	case !e.tells():
		return nil
	case invalid != nil:
		return fmt.Errorf("%w: event %s: %w", provider.ErrNotAnAnswer, typ, invalid)
	}
	switch {
	case typ == "message_start":
		return s.start(e, out)
	case !s.begun:
		return fmt.Errorf("%w: event %s before message_start", provider.ErrNotAnAnswer, typ)
	case typ == "content_block_start":
		return s.startBlock(e, out)
	case typ == "content_block_delta":
		s.delta(e, out)
	case typ == "content_block_stop":
		s.stopBlock(e.Index, out)
	case typ == "message_delta":
		if e.Delta.StopReason != "" { // a later event may tell the usage alone
			s.stop, s.details = e.Delta.StopReason, e.Delta.StopDetails
		}
		s.count(&e.Usage, out)
	default:
		s.finish(out)
	}
	return nil
}

// read reads an event. If it returns an error, it has read the types alone.
func (e *event) read(data []byte) error {
	if *e = (event{}); e.readDelta(data) {
		return nil
	}
	*e = event{}
	err := json.Unmarshal(data, e, provider.Lenient)
	if err != nil {
		e.readTypes(data)
	}
	return err
}

// readTypes reads the types alone. An event that means nothing here may have members of any kind.
func (e *event) readTypes(data []byte) {
	e.Type = gjson.GetBytes(data, "type").Str
	e.ContentBlock.Type = gjson.GetBytes(data, "content_block.type").Str
	e.Delta.Type = gjson.GetBytes(data, "delta.type").Str
}

// tells reports whether an event concerns the client. Others are pings, the work of tools that the vendor runs
// itself, and future events, which are unknown except for their type.
func (e *event) tells() bool {
	switch e.Type {
	case "content_block_start":
		return isBlock(e.ContentBlock.Type)
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta", "thinking_delta", "signature_delta", "citations_delta", "input_json_delta":
			return true
		}
		return false
	case "message_start", "content_block_stop", "message_delta", "message_stop":
		return true
	}
	return false
}

// start begins the answer. Proxies in front of the vendor were seen to repeat the event, and to begin another answer
// where the connection for the first was lost: the two together are none.
func (s *Stream) start(e *event, out chat.Sink) error {
	if s.begun && e.Message.ID != s.id {
		return openai.CodeUpstreamInvalidResponse.New("The provider began another answer before the first was complete.")
	}
	again := s.begun
	s.begun, s.id = true, e.Message.ID
	out.Put(chat.Begin(answerID(e.Message.ID)))
	out.Put(chat.Role(0))
	s.count(&e.Message.Usage, out)
	if again {
		return nil
	}
	s.stop, s.details = e.Message.StopReason, e.Message.StopDetails
	return s.given(e.Message.Content, out)
}

// given takes in the calls that an answer begins with: those of the vendor's code that wait for the client, which are
// whole.
func (s *Stream) given(blocks []jsontext.Value, out chat.Sink) error {
	for i, raw := range blocks {
		if gjson.GetBytes(raw, "type").Str != "tool_use" {
			continue
		}
		e := event{Index: -1 - i} // which the vendor counts no block by
		if err := json.Unmarshal(raw, &e.ContentBlock, provider.Lenient); err != nil {
			return fmt.Errorf("%w: event message_start: %w", provider.ErrNotAnAnswer, err)
		}
		if err := s.startBlock(&e, out); err != nil {
			return err
		}
		s.stopBlock(e.Index, out)
	}
	return nil
}

// count keeps the usage up to date, so that an answer that is cut off is charged with the usage so far.
func (s *Stream) count(u *reported.Usage, out chat.Sink) {
	s.usage.Later(u)
	out.Put(chat.Usage(s.usage.OpenAI()))
	out.Put(chat.Tier(u.Tier()))
}

// startBlock begins a block, in place of one that is open under its index.
func (s *Stream) startBlock(e *event, out chat.Sink) error {
	s.open = slices.DeleteFunc(s.open, func(o openBlock) bool { return o.index == e.Index })
	if len(s.open) == provider.MaxOpen {
		return provider.ErrTooManyOpen
	}
	b := openBlock{index: e.Index}
	switch c := &e.ContentBlock; c.Type {
	case "text":
		b.kind, b.from, b.citations = c.Type, s.characters, c.Citations
		s.text(c.Text, out)
	case "thinking":
		b.kind, b.signature = c.Type, []byte(c.Signature)
		s.reason(&b, c.Thinking, out)
	case "redacted_thinking":
		b.kind, b.data = c.Type, c.Data
	case "tool_use":
		b.kind, b.input = c.Type, CompactObject(c.Input)
		if s.answer.answerTool != "" && c.Name == s.answer.answerTool {
			b.kind = kindIgnored
			if !s.answered {
				b.kind, s.answered, s.held = kindAnswer, true, nil
			}
			break
		}
		b.call = s.calls
		s.calls++
		out.Put(chat.ToolCall(0, b.call, CarryThoughts(s.carrier, c.ID, s.thoughts), s.answer.names.Client(c.Name)))
		s.thoughts = nil
	}
	s.open = append(s.open, b)
	return nil
}

func (s *Stream) delta(e *event, out chat.Sink) {
	i := slices.IndexFunc(s.open, func(b openBlock) bool { return b.index == e.Index })
	if i < 0 {
		return
	}
	b, d := &s.open[i], &e.Delta
	switch {
	case d.Type == "text_delta" && b.kind == "text":
		s.textDelta(d, out)
	case d.Type == "thinking_delta" && b.kind == "thinking":
		s.reason(b, d.Thinking, out)
	case d.Type == "signature_delta" && b.kind == "thinking":
		b.signature = append(b.signature, d.Signature...)
	case d.Type == "citations_delta" && b.kind == "text":
		b.citations = append(b.citations, d.Citation)
	case d.Type == "input_json_delta" && d.PartialJSON != "":
		s.arguments(b, d.PartialJSON, out)
	}
}

// arguments writes a fragment of a tool's input, which is opaque: it may break anywhere and need not be valid JSON.
func (s *Stream) arguments(b *openBlock, fragment string, out chat.Sink) {
	switch b.kind {
	case "tool_use":
		out.Put(chat.Arguments(0, b.call, fragment))
	case kindAnswer:
		out.Put(chat.Text(0, fragment))
	}
	b.begun = true
}

func (s *Stream) textDelta(d *delta, out chat.Sink) {
	switch inside := max(0, len(d.plain)-len(`""`)); {
	case inside == 0:
		s.text(d.Text, out)
	case s.answered || s.answer.answerTool != "":
		s.text(string(d.plain[1:1+inside]), out)
	default:
		s.characters += utf8.RuneCount(d.plain) - len(`""`)
		out.Put(chat.Event{Kind: chat.KindText, JSON: d.plain})
	}
}

func (s *Stream) text(t string, out chat.Sink) {
	s.characters += utf8.RuneCountInString(t)
	switch {
	case t == "" || s.answered:
	case s.answer.answerTool != "":
		s.held = append(s.held, t...)
	default:
		out.Put(chat.Text(0, t))
	}
}

func (s *Stream) reason(b *openBlock, t string, out chat.Sink) {
	if t != "" {
		b.thinking = append(b.thinking, t...)
		out.Put(chat.Reasoning(0, t))
	}
}

// stopBlock completes a block: a call without arguments gets those it started with, and what was signed or cited is
// kept for the end.
func (s *Stream) stopBlock(index int, out chat.Sink) {
	i := slices.IndexFunc(s.open, func(b openBlock) bool { return b.index == index })
	if i < 0 {
		return
	}
	b := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	switch {
	case (b.kind == "tool_use" || b.kind == kindAnswer) && !b.begun:
		s.arguments(&b, string(b.input), out)
	case b.kind == "text" && s.answer.answerTool == "":
		s.annotations = appendAnnotations(s.annotations, b.citations, b.from, s.characters)
	case b.kind == "thinking" && len(b.signature) > 0:
		s.thought(Thought{Text: string(b.thinking), Signature: string(b.signature)}, out)
	case b.kind == "redacted_thinking":
		s.thought(Thought{Redacted: b.data}, out)
	}
}

// thought keeps a block for the client to echo, and for the call that follows.
func (s *Stream) thought(t Thought, out chat.Sink) {
	out.Put(chat.Signed(0, t.AppendJSON(nil)))
	s.thoughts, s.signed = append(s.thoughts, t), append(s.signed, t)
}

func (s *Stream) finish(out chat.Sink) {
	for len(s.open) > 0 {
		s.stopBlock(s.open[0].index, out)
	}
	if held := bytes.Clone(s.held); len(held) > 0 {
		out.Put(chat.Text(0, string(held)))
	}
	if len(s.annotations) > 0 {
		out.Put(chat.Member(0, "annotations", slices.Concat([]byte("["), s.annotations, []byte("]"))))
	}
	if len(s.signed) > 0 {
		out.Put(chat.Member(0, "thinking_blocks", AppendThoughts(nil, s.signed)))
	}
	if s.stop == "refusal" {
		out.Put(chat.Refusal(0, s.details.refusal()))
	}
	out.Put(chat.Finish(0, finishReason(s.stop, s.calls > 0)))
	out.Put(chat.End())
	s.done = true
}
