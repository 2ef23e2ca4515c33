package openai

import "github.com/modelgate/modelgate/internal/chat"

// A buffer holds the server-sent events of a writer. It writes the events that are the same for all kinds of answers.
type buffer struct{ chat.Buffer }

// raw writes raw forms, and the error that ends an answer. A failed stream has no end mark after the error.
func (w *buffer) raw(e *chat.Event) {
	switch e.Kind {
	case chat.KindChunk:
		w.Buf = append(append(append(w.Buf, "data: "...), e.JSON...), "\n\n"...)
	case chat.KindRawEvent, chat.KindComment:
		w.Buf = append(w.Buf, e.JSON...)
	case chat.KindError:
		w.Buf = e.Error.AppendJSON(append(w.Buf, "data: "...))
		w.Buf = append(w.Buf, "\n\n"...)
	}
}

// end writes the end mark of a complete stream.
func (w *buffer) end() { w.Buf = append(w.Buf, "data: [DONE]\n\n"...) }
