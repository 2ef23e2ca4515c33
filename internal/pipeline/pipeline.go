// Package pipeline carries an answer from a vendor's codec to the client. It holds the answer until it has content, so
// that an answer that fails earlier can still have a status. It then meters the answer, passes it through a guard if
// there is one, and writes it in the client's dialect.
//
// A chunk that was written need not contain anything: vendors announce the role, and send comments to keep connections
// alive, before they know whether there will be an answer.
package pipeline

import (
	"context"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// maxHeld bounds the held bytes of an answer, as the client would get them.
const maxHeld = 64 << 10

// A Guard judges the events of an answer. It may change an event, omit it or wait. It puts the events that it allows
// into next. An error ends the answer. A guard that changes nothing only sees the events.
type Guard interface {
	Put(ctx context.Context, e chat.Event, next chat.Sink) error
	Changes() bool
	// Document judges an answer that has no events.
	Document(ctx context.Context, body []byte) ([]byte, error)
}

// Options are the stages of a Pipeline.
type Options struct {
	Answer provider.Answer
	Asked  chat.Asked
	Writer chat.Writer
	Meter  chat.Sink // receives the events of the answer; may be nil
	Guard  Guard     // nil: all events are allowed
}

// A Pipeline processes one answer. The zero value has no answer. It is not safe for concurrent use.
type Pipeline struct {
	Options
	stream    provider.Stream
	ctx       context.Context // of the current piece, for the guard
	err       error           // of the guard
	usage     openai.Usage
	tier      string
	chunks    int
	isWhole   bool
	told      bool // there are events with content of the answer
	hasOutput bool
	hasEnded  bool
}

// New returns a pipeline for an answer.
func New(o Options) *Pipeline {
	p := &Pipeline{}
	p.Reset(o)
	return p
}

// Reset prepares the pipeline for another answer.
func (p *Pipeline) Reset(o Options) {
	o.Asked.Plain = o.Asked.Plain || o.Guard != nil
	*p = Pipeline{Options: o}
}

// IsIdle reports whether the pipeline has no answer.
func (p *Pipeline) IsIdle() bool { return p.Answer == nil }

// Usage returns the usage that the vendor has reported so far. It is also valid after an error.
func (p *Pipeline) Usage() openai.Usage { return p.usage }

// Tier returns the service tier that the vendor reported, with OpenAI's name, or "".
func (p *Pipeline) Tier() string { return p.tier }

// HasOutput reports whether content of the answer may have been sent to the client.
func (p *Pipeline) HasOutput() bool { return p.hasOutput }

// HasEnded reports whether the answer is complete. Later bytes of the vendor are ignored.
func (p *Pipeline) HasEnded() bool { return p.hasEnded }

// Chunks returns the number of chunks in the last piece.
func (p *Pipeline) Chunks() int { return p.chunks }

// Whole decodes a complete answer and returns the body for the client.
func (p *Pipeline) Whole(ctx context.Context, body []byte) ([]byte, error) {
	p.ctx, p.isWhole = ctx, true
	if err := p.Answer.Decode(body, p.Asked, p); err != nil {
		return nil, err
	}
	return p.Writer.Take(), p.err
}

// Piece decodes the next piece of a stream and returns the bytes for the client. The flag end marks the last piece. An
// error can come together with bytes. The bytes are valid until the pipeline is used again.
func (p *Pipeline) Piece(ctx context.Context, piece []byte, end bool) ([]byte, error) {
	if p.stream == nil {
		p.stream = p.Answer.Stream(p.Asked)
	}
	p.ctx, p.chunks = ctx, 0
	err := p.stream.Decode(piece, p)
	if err == nil && end && !p.hasEnded {
		if err = p.stream.Close(p); err == nil && !p.hasEnded {
			p.Put(chat.End())
		}
	}
	switch {
	case p.err != nil:
		err = p.err
	case p.hasEnded:
		err = nil
	}
	if !p.hasOutput && p.Writer.Len() <= maxHeld {
		return nil, err
	}
	p.hasOutput = true
	return p.Writer.Take(), err
}

// Release returns the held bytes. From now on nothing is held, with or without content.
func (p *Pipeline) Release() []byte {
	p.hasOutput = true
	return p.Writer.Take()
}

// Fail ends an answer that was partly sent to the client. It returns the bytes that report the error.
func (p *Pipeline) Fail(e *openai.Error) []byte {
	p.Writer.Put(chat.Event{Kind: chat.KindError, Error: e})
	return p.Writer.Take()
}

// Put implements chat.Sink for the codec.
func (p *Pipeline) Put(e chat.Event) {
	switch e.Kind {
	case chat.KindUsage:
		p.usage = *e.Usage
	case chat.KindTier:
		if e.Text != "" {
			p.tier = e.Text
		}
	case chat.KindEnd:
		p.hasEnded = !p.guarded()
	case chat.KindBegin:
		p.told = true
	}
	p.hasOutput = p.hasOutput || !p.guarded() && e.HasContent()
	if p.Meter != nil && (!p.isWhole || p.usage.CompletionTokens == 0) { // reported usage needs no counting
		p.Meter.Put(e)
	}
	if e.IsChunk() {
		p.chunks++
	}
	if p.Guard == nil {
		p.Writer.Put(e)
		return
	}
	if p.err == nil {
		p.guard(e)
	}
}

// guarded reports whether a guard may change the answer.
func (p *Pipeline) guarded() bool { return p.Guard != nil && p.Guard.Changes() }

// guard has the guard judge an event.
func (p *Pipeline) guard(e chat.Event) {
	switch {
	case p.isWhole && !p.told && e.Kind == chat.KindChunk:
		var body []byte
		if body, p.err = p.Guard.Document(p.ctx, e.JSON); p.err == nil {
			e.JSON = body
			p.Writer.Put(e)
		}
	case !p.guarded():
		p.Writer.Put(e)
		if !e.IsRaw() {
			p.err = p.Guard.Put(p.ctx, e, nothing{})
		}
	case e.Kind == chat.KindSigned: // what was signed may have changed
	case !e.IsRaw():
		e.Covered = e.Covered && p.isWhole && !p.told && (e.Kind == chat.KindUsage || e.Kind == chat.KindEnd)
		p.err = p.Guard.Put(p.ctx, e, (*allowed)(p))
		p.hasEnded = p.hasEnded || e.Kind == chat.KindEnd && p.err == nil
	}
}

// nothing is a sink for events that were written already.
type nothing struct{}

// Put implements chat.Sink.
func (nothing) Put(chat.Event) {}

// allowed receives the events that the guard allows.
type allowed Pipeline

// Put implements chat.Sink.
func (p *allowed) Put(e chat.Event) {
	p.hasOutput = p.hasOutput || e.HasContent()
	p.Writer.Put(e)
}
