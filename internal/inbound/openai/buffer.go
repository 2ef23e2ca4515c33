package openai

import "github.com/modelgate/modelgate/internal/chat"

// A buffer holds the server-sent events that a writer has written, and writes those that do not depend on what the
// answer is.
type buffer struct{ buf []byte }

// maxIdleBuffer bounds what a stream that is silent holds on to: there are thousands of them.
const maxIdleBuffer = 16 << 10

// Take returns the bytes written since the last call. They are the caller's until the writer is used again.
func (w *buffer) Take() []byte {
	b := w.buf
	w.buf = w.buf[:0]
	if cap(b) > maxIdleBuffer {
		w.buf = nil
	}
	return b
}

// Len returns how many bytes Take would return.
func (w *buffer) Len() int { return len(w.buf) }

// raw writes what is not rendered: raw forms, and the error that an answer ends with. A stream that failed has no end
// mark after it.
func (w *buffer) raw(e *chat.Event) {
	switch e.Kind {
	case chat.KindChunk:
		w.buf = append(append(append(w.buf, "data: "...), e.JSON...), "\n\n"...)
	case chat.KindReceived, chat.KindComment:
		w.buf = append(w.buf, e.JSON...)
	case chat.KindFailed:
		w.buf = e.Error.AppendJSON(append(w.buf, "data: "...))
		w.buf = append(w.buf, "\n\n"...)
	}
}

// end writes the end mark of a stream that is complete.
func (w *buffer) end() { w.buf = append(w.buf, "data: [DONE]\n\n"...) }
