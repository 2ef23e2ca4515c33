package overchat

import (
	"fmt"
	"strings"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// answer implements provider.Answer.
type answer struct {
	inner provider.Answer
	echo  string // the beginning of every choice
}

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	asked.Plain = true
	s := a.sink()
	if err := a.inner.Decode(body, asked, s.to(out)); err != nil {
		return err
	}
	if len(s.echoed) == 0 {
		return fmt.Errorf("%w: it has no choices", provider.ErrNotAnAnswer)
	}
	return nil
}

// Stream implements provider.Answer.
func (a *answer) Stream(asked chat.Asked) provider.Stream {
	return &stream{inner: a.inner.Stream(asked), sink: a.sink()}
}

// stream implements provider.Stream.
type stream struct {
	inner provider.Stream
	sink  *sink
}

// Decode implements provider.Stream.
func (s *stream) Decode(piece []byte, out chat.Sink) error {
	return s.inner.Decode(piece, s.sink.to(out))
}

// Close implements provider.Stream.
func (s *stream) Close(out chat.Sink) error { return s.inner.Close(s.sink.to(out)) }

// A sink converts events of a chat completion to events of a legacy completion. It drops raw forms, which are
// chat completions.
type sink struct {
	out    chat.Sink
	echo   string
	echoed map[int]bool // choices
}

func (a *answer) sink() *sink { return &sink{echo: a.echo, echoed: map[int]bool{}} }

func (s *sink) to(out chat.Sink) *sink {
	s.out = out
	return s
}

// Put implements chat.Sink.
func (s *sink) Put(e chat.Event) {
	e.Covered = false
	switch e.Kind {
	case chat.KindChunk, chat.KindRawEvent, chat.KindComment:
		return
	case chat.KindBegin:
		e.ID = "cmpl-" + strings.TrimPrefix(e.ID, "chatcmpl-")
	case chat.KindRefusal: // text as any other to clients of completions
		e.Kind = chat.KindText
		s.begin(e.Choice)
	case chat.KindRole, chat.KindText, chat.KindReasoning, chat.KindMember:
		s.begin(e.Choice)
	case chat.KindFinish:
		s.begin(e.Choice)
		e.Text = finishReason(e.Text)
	}
	s.out.Put(e)
}

// begin begins a choice with its echo.
func (s *sink) begin(choice int) {
	if s.echoed[choice] {
		return
	}
	s.echoed[choice] = true
	if s.echo != "" {
		s.out.Put(chat.Text(choice, s.echo))
	}
}

// finishReason converts a chat completion's finish reason. Without tools there are no calls.
func finishReason(reason string) string {
	switch reason {
	case "", "length", "content_filter":
		return reason
	}
	return "stop"
}
