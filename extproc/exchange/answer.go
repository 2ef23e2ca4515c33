package exchange

import (
	"context"
	"slices"

	"github.com/modelgate/modelgate/extproc/call"
)

// duplex is the state of an answer in the mode Duplex. Pieces of its body arrive while its headers wait for a reply.
// Until the reply, the status can change: a provider can report an error with status 200.
type duplex struct {
	head  *Reply // the reply to the headers, while they wait
	held  Reply  // what head points to
	size  int64  // from the headers; 0 if unknown or more than may be held
	begun bool   // the headers have come
	whole bool   // the whole body is needed
	pass  bool   // the pieces pass unchanged
	over  bool   // the client has its answer; the rest is ignored
}

// maxAnswer bounds an answer that is needed whole, as Envoy's buffer limit bounds the others.
const maxAnswer = 48 << 20

// ResponseHeaders handles the headers of an answer. The answer is a provider's, or Envoy's own if it reached no
// provider.
func (x *Exchange) ResponseHeaders(h Headers, f Facts, end bool) Reply {
	reply := Reply{ResponseBody: None} // of Envoy's own answer to a request without a plan
	if p := x.chain.Passage(); p != nil && !x.c.Ended && !x.duplex.begun {
		x.duplex.begun = true
		x.duplex.size = announcedAnswer(h)
		reply = p.Headers(h, x.known(f), end)
	}
	switch {
	case reply.Again != nil:
		return x.startAgain(reply)
	case x.c.Duplex:
		return x.await(reply, end)
	}
	return reply
}

// known adds the cluster of the last attempt, which Envoy need not report, because it is the plan's.
func (x *Exchange) known(f Facts) Facts {
	if p := x.c.Active; p != nil && f.Cluster == "" && f.Attempts > 0 && f.Attempts <= len(p.Targets) {
		f.Cluster = p.Targets[f.Attempts-1].Cluster
	}
	return f
}

// startAgain prepares for the answer to another attempt.
func (x *Exchange) startAgain(reply Reply) Reply {
	x.duplex = duplex{}
	return reply
}

// await delays the reply to an answer's headers if it depends on the body.
func (x *Exchange) await(reply Reply, end bool) Reply {
	mode := reply.ResponseBody
	reply.ResponseBody = Keep
	switch {
	case reply.Immediate != nil || end:
		return reply
	case mode == Buffered:
		x.duplex.whole = true
		return x.hold(reply)
	case reply.Hold:
		return x.hold(reply)
	}
	x.duplex.pass = mode == None
	return reply
}

func (x *Exchange) hold(reply Reply) Reply {
	patience := reply.Patience
	reply.Patience = 0
	x.duplex.held, x.duplex.head, x.c.HeadWaits = reply, &x.duplex.held, true
	return Reply{Wait: true, Patience: patience}
}

// ResponseBody handles a piece of an answer's body, or the whole body if it is not streamed.
func (x *Exchange) ResponseBody(ctx context.Context, piece []byte, end bool) Reply {
	if x.c.Duplex {
		return x.nextPiece(ctx, piece, end)
	}
	reply := x.take(ctx, piece, end)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	x.c.Sent(piece)
	return reply
}

// take has the passage handle a piece.
func (x *Exchange) take(ctx context.Context, piece []byte, end bool) Reply {
	if x.c.Record.FirstByte.IsZero() {
		x.c.Record.FirstByte = x.c.Env.Now()
	}
	x.account.Received += int64(len(piece))
	if x.c.Ended || x.chain.Passage() == nil || x.c.Unseen {
		return Reply{ReplaceBody: true} // bytes after the end mark or the error of a stream
	}
	x.c.Guarded.BeginJudging(len(piece) + len(x.c.Held))
	defer x.c.Guarded.ReleaseTurn()
	return x.chain.Passage().Body(ctx, piece, end)
}

// nextPiece processes a piece of a Duplex body.
func (x *Exchange) nextPiece(ctx context.Context, piece []byte, end bool) Reply {
	d := &x.duplex
	if d.over {
		return Reply{Wait: true}
	}
	if d.whole {
		if details, err := x.collect(piece); err != nil {
			d.over = true
			x.account.Salvage(x.c.Held)
			return x.answer.FailUpstream(err, details)
		}
		if !end {
			return Reply{Wait: true}
		}
		piece, x.c.Held = x.c.Held, nil
	}
	var reply Reply
	if !d.pass {
		reply = x.take(ctx, piece, end)
	}
	switch {
	case reply.Again != nil:
		return x.startAgain(reply)
	case reply.Wait:
		return reply
	case reply.Immediate != nil, reply.Piece:
		d.over = true
		return reply
	case reply.ReplaceBody:
		piece = reply.Body
	}
	d.over = reply.End
	return x.release(piece, end || reply.End, reply.Set)
}

// collect holds a piece of an answer that is needed whole. It returns why it cannot, and the details for Envoy's log.
func (x *Exchange) collect(piece []byte) (details string, err error) {
	held := &x.c.Held
	switch {
	case len(*held)+len(piece) > maxAnswer:
		return "mg_answer_too_large", call.ErrAnswerTooLarge
	case x.c.NoRoom:
		return "mg_no_room", call.ErrNoRoom
	case *held == nil && int64(len(piece)) < x.duplex.size:
		*held = append(make([]byte, 0, x.duplex.size), piece...)
	case *held == nil:
		*held = slices.Clip(piece) // most bodies are one piece
	default:
		*held = append(*held, piece...)
	}
	return "", nil
}

// release sends a piece, and before it the headers if they waited.
func (x *Exchange) release(piece []byte, end bool, set Headers) Reply {
	reply := Reply{Piece: true, Body: piece, End: end}
	if len(piece) == 0 && !end {
		reply.Wait = true
		return reply
	}
	return x.send(reply, set)
}

// send sends a piece, however long it is.
func (x *Exchange) send(reply Reply, set Headers) Reply {
	if x.duplex.head != nil {
		reply.Head, x.duplex.head, x.c.HeadWaits = x.duplex.head, nil, false
		reply.Head.Set = append(reply.Head.Set, set...)
		x.c.Active.Release()
	}
	x.c.Sent(reply.Body)
	return reply
}

// Release ends the wait of a stream's headers and reports whether they waited. For a request that drains, it sends the
// whole answer. For a passage, it sends what the passage says. If the reply has Patience, Release is called again.
func (x *Exchange) Release() (Reply, bool) {
	if x.drained != nil && x.drained.answer != nil {
		return x.endDrain(), true
	}
	if x.c.Ended || x.chain.Passage() == nil {
		return Reply{}, false
	}
	reply, ok := x.chain.Passage().Release()
	if !ok || reply.Piece {
		return reply, ok
	}
	x.duplex.over = reply.End
	return x.send(Reply{Piece: true, Body: reply.Body, End: reply.End}, nil), true
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

// Broken ends the answer to an attempt of Reply.Again that breaks off, or does not come.
func (x *Exchange) Broken(err error) Reply {
	if x.c.Ended || x.duplex.over {
		return Reply{Wait: true}
	}
	reply := x.chain.Planned.Broken(err)
	switch {
	case reply.Again != nil:
		return x.startAgain(reply)
	case reply.ReplaceBody:
		x.duplex.over = true
		return x.release(reply.Body, true, reply.Set)
	}
	return reply
}
