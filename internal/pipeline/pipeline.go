// Package pipeline is the way of an answer from a vendor's codec to the client. An answer is held until it says
// something, so that one that fails before that can still have a status; it is metered, may pass a guard, and is
// written in the client's dialect.
//
// That a chunk was written does not mean that anything was said: vendors announce the role, and keep connections alive
// with comments, before they know whether there will be an answer.
package pipeline

import (
	"context"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
)

// maxHeld bounds what a vendor can have held back, in bytes as the client would get them.
const maxHeld = 64 << 10

// A Guard judges what an answer says, and may change it, leave it out or wait. What it lets pass it puts into next. An
// error ends the answer.
type Guard interface {
	Put(ctx context.Context, e chat.Event, next chat.Sink) error
}

// Options are the stages of a Pipeline.
type Options struct {
	Answer provider.Answer
	Asked  chat.Asked
	Writer chat.Writer
	Meter  chat.Sink // takes what the answer says; nil: nobody does
	Guard  Guard     // nil: everything passes
}

// A Pipeline takes one answer. Its zero value is that of no answer. It is not safe for concurrent use.
type Pipeline struct {
	Options
	stream provider.Stream
	ctx    context.Context // of the piece at hand, for the guard
	err    error           // the guard's
	usage  openai.Usage
	tier   string
	chunks int
	whole  bool
	spoken bool
	ended  bool
}

// New returns the pipeline of an answer.
func New(o Options) *Pipeline {
	p := &Pipeline{}
	p.Take(o)
	return p
}

// Take makes the pipeline that of an answer.
func (p *Pipeline) Take(o Options) {
	o.Asked.Plain = o.Asked.Plain || o.Guard != nil
	*p = Pipeline{Options: o}
}

// IsIdle reports whether the pipeline is that of no answer.
func (p *Pipeline) IsIdle() bool { return p.Answer == nil }

// Usage returns what the answer has used as far as the vendor has said, also of one that failed.
func (p *Pipeline) Usage() openai.Usage { return p.usage }

// Tier returns the service tier that the vendor says it has given, in OpenAI's words, or "".
func (p *Pipeline) Tier() string { return p.tier }

// HasSpoken reports whether something of the answer may have gone to the client.
func (p *Pipeline) HasSpoken() bool { return p.spoken }

// HasEnded reports whether the answer is complete. Nothing of the vendor's matters after that.
func (p *Pipeline) HasEnded() bool { return p.ended }

// Chunks returns how many chunks the last piece had.
func (p *Pipeline) Chunks() int { return p.chunks }

// Whole takes an answer that came whole and returns what the client gets.
func (p *Pipeline) Whole(ctx context.Context, body []byte) ([]byte, error) {
	p.ctx, p.whole = ctx, true
	if err := p.Answer.Decode(body, p.Asked, p); err != nil {
		return nil, err
	}
	return p.Writer.Take(), p.err
}

// Piece takes the next piece of a stream, or with end the last one, and returns what the client gets now. It may get
// something where there is an error, too. What is returned is valid until the pipeline is used again.
func (p *Pipeline) Piece(ctx context.Context, piece []byte, end bool) ([]byte, error) {
	if p.stream == nil {
		p.stream = p.Answer.Stream(p.Asked)
	}
	p.ctx, p.chunks = ctx, 0
	err := p.stream.Decode(piece, p)
	if err == nil && end && !p.ended {
		if err = p.stream.Close(p); err == nil && !p.ended {
			p.Put(chat.End())
		}
	}
	switch {
	case p.err != nil:
		err = p.err
	case p.ended:
		err = nil
	}
	if !p.spoken && p.Writer.Len() <= maxHeld {
		return nil, err
	}
	p.spoken = true
	return p.Writer.Take(), err
}

// Open has the client get what is held, and what comes after it, whatever that says. It returns what is held.
func (p *Pipeline) Open() []byte {
	p.spoken = true
	return p.Writer.Take()
}

// Fail ends an answer of which something has gone to the client, and returns how it is told.
func (p *Pipeline) Fail(e *openai.Error) []byte {
	p.Writer.Put(chat.Event{Kind: chat.KindFailed, Error: e})
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
		p.ended = true
	}
	p.spoken = p.spoken || e.Speaks()
	if p.Meter != nil && (!p.whole || p.usage.CompletionTokens == 0) { // what is reported needs no counting
		p.Meter.Put(e)
	}
	if e.IsChunk() {
		p.chunks++
	}
	if p.Guard == nil {
		p.Writer.Put(e)
		return
	}
	if !e.IsRaw() && p.err == nil {
		e.Covered = false
		p.err = p.Guard.Put(p.ctx, e, p.Writer)
	}
}
