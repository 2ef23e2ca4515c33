package planned

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// Headers handles the headers of an answer.
func (p *Passage) Headers(h call.Headers, f call.Facts, end bool) call.Reply {
	switch {
	case p.further != nil && p.further.first != nil:
		return p.takeOver(h, f)
	case p.isFurther():
		f = p.facts()
	}
	reply := p.headers(h, f, end)
	switch {
	case reply.Again != nil:
		p.noteStale(h)
	case p.isFurther():
		reply = p.replaceHead(reply, h)
	}
	p.removed = reply.Remove
	return reply
}

func (p *Passage) headers(h call.Headers, f call.Facts, end bool) call.Reply {
	status, own := p.answer.Begin(h, f)
	if own != nil {
		return *own
	}
	p.c.Guarded.Expect()
	if err := p.answer.Take(h, f); err != nil {
		return p.answer.FailUpstream(err, "mg_unplanned_answer")
	}
	if !p.hasNext() { // the request is not needed any more
		p.c.Active.Release()
	}
	if status < 200 || status > 299 {
		if !end {
			p.form = failed
		}
		return p.answer.ErrorHeaders(h, status, end)
	}
	p.c.Env.Cooldown.Served(p.c.Provider, p.c.Record.Start)
	if h.Get("content-encoding") != "" || end {
		return p.answer.FailUpstream(provider.ErrNotAnAnswer, "mg_bad_answer")
	}
	reply := p.answer.Headers(h)
	switch {
	case p.answer.Decoded.Reader == nil:
		return p.pass(h, reply)
	case p.c.WantsStream:
		return p.begin(h, reply)
	}
	p.open(whole, p.c.Operation.Document)
	p.c.Media, reply.ResponseBody = answer.TypeJSON, call.Buffered
	reply.Set = append(reply.Set, call.Header{Name: "content-type", Value: answer.TypeJSON})
	return reply
}

// pass handles the headers of an answer that passes unchanged.
func (p *Passage) pass(h call.Headers, reply call.Reply) call.Reply {
	reply = p.answer.PassHeaders(h, reply)
	switch {
	case p.c.Whole:
		p.form = judged
	case p.answer.Watch != nil:
		if p.form = passed; p.hasNext() {
			reply.Hold = true
			if p.c.Record.Stream {
				reply.Patience = patience
			}
		}
	case p.c.Unseen:
		p.form = passed // it has begun, so no other attempt may follow
	}
	return reply
}

// open prepares the pipeline that writes the answer.
func (p *Passage) open(f form, write func(chat.Asked) chat.Writer) {
	c := p.c
	asked := chat.Asked{Model: c.Record.Model, Created: c.Record.Start.Unix(), IncludeUsage: c.IncludeUsage,
		Plain: c.Dialect.Plain, Echo: c.Echo, Carrier: c.Head.Carrier}
	o := pipeline.Options{Answer: p.answer.Decoded.Reader, Asked: asked, Writer: write(asked),
		Meter: &p.answer.Account.Text}
	if g := c.Guarded.Answer(); g != nil {
		o.Guard = g
	}
	p.pipe.Reset(o)
	p.form, c.Whole = f, f == whole
}

// begin handles the headers of an answer that is translated piece by piece.
func (p *Passage) begin(h call.Headers, reply call.Reply) call.Reply {
	switch media := h.Get("content-type"); {
	case p.c.Provider.Vendor.Streams(media):
	case call.MediaType(media) == answer.TypeJSON: // an error, most likely
		p.open(whole, p.c.Operation.Stream)
		reply.ResponseBody = call.Buffered
		return reply
	default:
		return p.answer.FailUpstream(pipeline.ErrNotAStream, "mg_not_a_stream")
	}
	p.open(stream, p.c.Operation.Stream)
	p.c.Media = cmp.Or(p.c.Operation.StreamType, answer.TypeSSE)
	reply.ResponseBody, reply.Hold, reply.Patience = call.Streamed, true, patience
	reply.Remove = append(reply.Remove, "content-length")
	reply.Set = append(reply.Set, call.Header{Name: "content-type", Value: p.c.Media},
		call.Header{Name: "cache-control", Value: "no-cache"})
	return reply
}

// Body handles a piece of an answer's body, or the whole body if it is needed as a whole.
func (p *Passage) Body(ctx context.Context, piece []byte, end bool) call.Reply {
	switch p.form {
	case stream:
		return p.piece(ctx, piece, end)
	case passed:
		if p.c.HeadWaits {
			return p.heldPiece(ctx, piece, end)
		}
		return p.answer.PassPiece(ctx, piece, end)
	case whole, judged:
		if p.c.NoRoom {
			p.answer.Account.Salvage(piece)
			return p.answer.ReplaceByError(call.ErrNoRoom)
		}
		if p.form == whole {
			return p.document(ctx, piece)
		}
		return p.answer.JudgedWhole(ctx, piece)
	case failed:
		e := p.answer.Error(piece)
		if p.mayCountInstead(e) {
			return p.countInstead()
		}
		return p.answer.ReplaceByError(e)
	}
	return call.Reply{ReplaceBody: true}
}

// document handles a complete answer.
func (p *Passage) document(ctx context.Context, body []byte) call.Reply {
	out, err := p.pipe.Whole(ctx, body)
	if call.HasLeft(err) {
		return call.Reply{ReplaceBody: true}
	}
	if p.c.WantsStream && (err == nil || !answer.IsRefusal(err)) {
		err = pipeline.ErrNotAStream
	}
	if err != nil {
		p.answer.Account.Salvage(body)
		return p.answer.ReplaceByError(err)
	}
	p.c.Record.Outcome = metering.OutcomeFinished
	p.answer.Account.Text.Report(p.pipe.Usage())
	p.c.Finish()
	set := append(p.sized[:0], call.Header{Name: "content-length", Value: strconv.Itoa(len(out))})
	if p.answer.Account.WantsCost && p.c.Record.Priced {
		set = append(set, call.Header{Name: answer.HeaderCost, Value: p.c.Record.Cost.String()})
	}
	return call.Reply{ReplaceBody: true, Body: out, Set: set}
}

func (p *Passage) piece(ctx context.Context, piece []byte, end bool) call.Reply {
	out, err := p.pipe.Piece(ctx, piece, end)
	p.c.Chunks(p.pipe.Chunks())
	p.answer.Account.Text.Report(p.pipe.Usage())
	switch {
	case p.pipe.HasEnded():
		p.c.Record.Outcome = metering.OutcomeFinished
		p.c.Finish()
	case call.HasLeft(err):
		return call.Reply{ReplaceBody: true}
	case err != nil && !p.pipe.HasOutput():
		return p.answer.FailUpstream(err, "mg_failed_stream")
	case err != nil:
		p.answer.Sent = true
		out = append(slices.Clone(out), p.pipe.Fail(p.answer.Fail(err))...) // the writer owns the bytes so far
	}
	return call.Reply{ReplaceBody: true, Body: out}
}

// maxPassedHeld bounds how much of an answer that passes is held until it is known whether it is an error.
const maxPassedHeld = 64 << 10

// heldPiece takes a piece of an answer that passes, whose headers wait until it has content or has failed.
func (p *Passage) heldPiece(ctx context.Context, piece []byte, end bool) call.Reply {
	c := p.c
	reply := p.answer.PassPiece(ctx, piece, false)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	if c.Held == nil {
		c.Held = slices.Clip(piece)
	} else {
		c.Held = append(c.Held, piece...)
	}
	complete := true
	if end {
		_, complete, _ = p.answer.Watch.End()
		complete = complete && !c.Record.Stream // what completes a stream is content
	}
	said := p.answer.Watch.Report()
	if err := answer.FailureOf(said, complete, c.Held); err != nil {
		if reply, ok := p.Again(err); ok {
			return reply
		}
	}
	if !end && !reply.End && !said.Said && !said.Failed && len(c.Held) < maxPassedHeld {
		return call.Reply{Wait: true}
	}
	piece, c.Held = c.Held, nil
	if end && !reply.End {
		reply = p.answer.PassPiece(ctx, nil, true)
		piece = append(piece, reply.Body...)
	}
	return call.Reply{ReplaceBody: true, Body: piece, End: reply.End}
}

// Release is called after the patience of a stream's headers. Later errors are reported inside the stream.
func (p *Passage) Release() (call.Reply, bool) {
	if !p.c.HeadWaits || p.form != stream && p.form != passed {
		return call.Reply{}, false
	}
	body := p.c.Held
	if p.c.Held = nil; p.form == stream {
		body = p.pipe.Release()
	}
	return call.Reply{Body: body}, true
}
