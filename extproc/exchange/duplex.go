package exchange

import (
	"context"
	"slices"
	"time"

	"github.com/modelgate/modelgate/extproc/call"
)

// duplex is the state of an answer in the mode Duplex. Pieces of its body arrive while its headers wait for a reply.
// Until the reply, the status can change: a provider can report an error with status 200.
type duplex struct {
	head  *Reply // the reply to the headers, while they wait
	held  Reply  // what head points to
	whole bool   // the whole body is needed
	body  []byte // received so far
	size  int64  // from the headers; 0 if unknown or more than may be held
	pass  bool   // the pieces pass unchanged
	over  bool   // the client has its answer; the rest is ignored
}

// patience is how long the headers of a stream wait for content. An error comes quickly, but a model may think for
// minutes. Proxies between gateway and client give up on an answer without headers after about one minute.
const patience = 15 * time.Second

// maxAnswer bounds an answer that is needed whole, as Envoy's buffer limit bounds the others.
const maxAnswer = 48 << 20

// await delays the reply to an answer's headers if it depends on the body.
func (x *Exchange) await(reply Reply, end bool) Reply {
	mode := reply.ResponseBody
	reply.ResponseBody = Keep
	switch {
	case reply.Immediate != nil || end:
		return reply
	case mode == Buffered:
		x.duplex.hold(reply)
		x.duplex.whole = true
		return Reply{Wait: true}
	case x.state == inStream:
		x.duplex.hold(reply)
		return Reply{Wait: true, Patience: patience}
	case x.state == inPassed && hasNext(x):
		x.duplex.hold(reply)
		held := Reply{Wait: true}
		if x.c.Record.Stream {
			held.Patience = patience
		}
		return held
	}
	x.duplex.pass = mode == None
	return reply
}

func (d *duplex) hold(reply Reply) { d.held, d.head = reply, &d.held }

// nextPiece processes a piece of a body.
func (x *Exchange) nextPiece(ctx context.Context, piece []byte, end bool) Reply {
	d := &x.duplex
	if d.over {
		return Reply{Wait: true}
	}
	if x.state == inReplay {
		d.over = true // what Envoy says besides is ignored
		return x.replayPiece()
	}
	if d.whole {
		if len(d.body)+len(piece) > maxAnswer {
			d.over = true
			x.salvage(d.body)
			return x.answer.FailUpstream(call.ErrAnswerTooLarge, "mg_answer_too_large")
		}
		switch {
		case x.room.IsMissing:
			d.over = true
			x.salvage(d.body)
			return x.answer.FailUpstream(call.ErrNoRoom, "mg_no_room")
		case d.body == nil && int64(len(piece)) < d.size:
			d.body = append(make([]byte, 0, d.size), piece...)
		case d.body == nil:
			d.body = slices.Clip(piece) // most bodies are one piece
		default:
			d.body = append(d.body, piece...)
		}
		if !end {
			return Reply{Wait: true}
		}
		piece, d.body = d.body, nil
	}
	if x.state == inPassed && d.head != nil {
		return heldPiece(ctx, x, piece, end)
	}
	var reply Reply
	if !d.pass {
		reply = x.responseBody(ctx, piece, end)
	}
	switch {
	case reply.Again != nil:
		return reply
	case reply.Immediate != nil:
		d.over = true
		return reply
	case reply.ReplaceBody:
		piece = reply.Body
	}
	d.over = reply.End
	return x.release(piece, end || reply.End, reply.Set)
}

// release sends a piece, and before it the headers if they waited.
func (x *Exchange) release(piece []byte, end bool, set Headers) Reply {
	reply := Reply{Piece: true, Body: piece, End: end}
	if len(piece) == 0 && !end {
		reply.Wait = true
		return reply
	}
	if x.duplex.head != nil {
		reply.Head, x.duplex.head = x.duplex.head, nil
		reply.Head.Set = append(reply.Head.Set, set...)
		x.c.Active.Release()
	}
	x.c.Sent(piece)
	return reply
}

// Release ends the wait of a stream's headers and reports whether they waited. Later errors are reported inside the
// stream. For a request that drains, Release sends the whole answer. For a session it reports whether the session has
// to end. If the reply has Patience, Release is called again.
func (x *Exchange) Release() (Reply, bool) {
	if x.drained != nil && x.drained.answer != nil {
		return x.endDrain(), true
	}
	switch x.state {
	case inPassage:
		reply, ok := x.passage.Release()
		if !ok {
			return reply, false
		}
		x.duplex.over = true
		return x.release(reply.Body, true, nil), true
	case inReplay:
		return x.replayPiece(), true
	}
	if x.duplex.head == nil || x.state != inStream && x.state != inPassed {
		return Reply{}, false
	}
	reply := Reply{Piece: true, Head: x.duplex.head, Body: x.duplex.body}
	if x.state == inStream {
		reply.Body = x.pipe.Release()
	}
	x.duplex.head, x.duplex.body = nil, nil
	x.c.Active.Release()
	x.c.Sent(reply.Body)
	return reply, true
}

// ResponseTrailers treats the trailers after a Duplex body as its end. The client gets no trailers.
func (x *Exchange) ResponseTrailers(ctx context.Context, h Headers) Reply {
	reply := x.nextPiece(ctx, nil, true)
	reply.End = false
	for i := range h {
		reply.Remove = append(reply.Remove, h[i].Name)
	}
	return reply
}
