package openai

import "github.com/modelgate/modelgate/internal/chat"

// A buffer holds the server-sent events of a writer. It writes the events that are the same for all kinds of answers.
type buffer struct{ buf []byte }

// maxIdleBuffer bounds the buffer that an idle stream keeps: there are thousands of them.
const maxIdleBuffer = 16 << 10

// Take returns the bytes written since the last call. They are valid until the writer is used again.
func (w *buffer) Take() []byte {
	b := w.buf
	w.buf = w.buf[:0]
	if cap(b) > maxIdleBuffer {
		w.buf = nil
	}
	return b
}

// Len returns the number of bytes that Take would return.
func (w *buffer) Len() int { return len(w.buf) }

// raw writes raw forms, and the error that ends an answer. A failed stream has no end mark after the error.
func (w *buffer) raw(e *chat.Event) {
	switch e.Kind {
	case chat.KindChunk:
		w.buf = append(append(append(w.buf, "data: "...), e.JSON...), "\n\n"...)
	case chat.KindRawEvent, chat.KindComment:
		w.buf = append(w.buf, e.JSON...)
	case chat.KindError:
		w.buf = e.Error.AppendJSON(append(w.buf, "data: "...))
		w.buf = append(w.buf, "\n\n"...)
	}
}

// end writes the end mark of a complete stream.
func (w *buffer) end() { w.buf = append(w.buf, "data: [DONE]\n\n"...) }
