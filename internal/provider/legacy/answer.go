package legacy

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// answer implements provider.Answer.
type answer struct{ inner provider.Answer }

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	if err := a.inner.Decode(body, asked, sink{out, "message"}); err != nil {
		return asFunctions(err)
	}
	return nil
}

// Stream implements provider.Answer.
func (a *answer) Stream(asked chat.Asked) provider.Stream { return stream{a.inner.Stream(asked)} }

// stream implements provider.Stream.
type stream struct{ inner provider.Stream }

// Decode implements provider.Stream.
func (s stream) Decode(piece []byte, out chat.Sink) error {
	return s.inner.Decode(piece, sink{out, "delta"})
}

// Close implements provider.Stream.
func (s stream) Close(out chat.Sink) error { return s.inner.Close(sink{out, "delta"}) }

// A sink converts events with tool calls to those for a client of functions.
type sink struct {
	out  chat.Sink
	said string // the member of a choice with the content: message or delta
}

// Put implements chat.Sink.
func (s sink) Put(e chat.Event) {
	switch e.Kind {
	case chat.KindToolCall, chat.KindArguments:
		if e.Call > 0 { // the first call becomes the function call
			return
		}
		e.Function = true
		if e.Kind == chat.KindToolCall {
			e.ID, e.JSON = "", nil
		}
	case chat.KindFinish:
		if e.Text == "tool_calls" {
			e.Text = "function_call"
		}
	case chat.KindChunk:
		if e.JSON = rebuilt(e.JSON, s.said); e.JSON == nil {
			return
		}
	}
	s.out.Put(e)
}

// rebuilt returns an answer or a chunk for a client of functions, or nil if nothing is left.
func rebuilt(chat []byte, said string) []byte {
	if !bytes.Contains(chat, []byte(`"tool_calls"`)) {
		return chat
	}
	r := rebuild{said: said}
	out := r.append(make([]byte, 0, len(chat)), gjson.ParseBytes(chat))
	if !r.rest {
		return nil
	}
	return out
}
