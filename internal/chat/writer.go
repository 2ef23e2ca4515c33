package chat

// maxIdleBuffer bounds the buffer that an idle stream keeps: there are thousands of them.
const maxIdleBuffer = 16 << 10

// A Buffer has what the writer of a stream has written. Writers embed it.
type Buffer struct{ Buf []byte }

// Take implements Writer.
func (w *Buffer) Take() []byte {
	b := w.Buf
	w.Buf = w.Buf[:0]
	if cap(b) > maxIdleBuffer {
		w.Buf = nil
	}
	return b
}

// Len implements Writer.
func (w *Buffer) Len() int { return len(w.Buf) }

// A document writes a complete answer. The vendor's own answer passes.
type document struct {
	asked  Asked
	append func(dst []byte, asked Asked, a *Answer) []byte
	native bool
	answer Answer
	body   []byte
}

// Documents returns what makes Writers of complete answers in a dialect other than OpenAI's.
func Documents(appendAnswer func(dst []byte, asked Asked, a *Answer) []byte) func(Asked) Writer {
	return func(asked Asked) Writer { return &document{asked: asked, append: appendAnswer} }
}

// Put implements Sink.
func (d *document) Put(e Event) {
	if e.Kind == KindNative {
		d.native, d.body = true, e.JSON
	}
	if d.native || e.IsRaw() {
		return
	}
	d.answer.Put(e)
	if e.Kind == KindEnd {
		d.body = d.append(nil, d.asked, &d.answer)
	}
}

// Take implements Writer.
func (d *document) Take() []byte { return d.body }

// Len implements Writer.
func (d *document) Len() int { return len(d.body) }

// A Covered is a Sink that marks events as covered by a raw form.
type Covered struct{ Out Sink }

// Put implements Sink.
func (c *Covered) Put(e Event) {
	e.Covered = true
	c.Out.Put(e)
}
