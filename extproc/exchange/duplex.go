package exchange

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// duplex is what an exchange keeps of an answer in the mode Duplex, whose pieces come while its headers wait for a
// reply. Until then the status is open: what a provider says with status 200 may be an error nevertheless.
type duplex struct {
	on    bool
	head  *Reply // to the headers, while they wait
	whole bool   // the body is needed whole
	body  []byte // of it, so far
	size  int64  // of it, as its headers say; 0 where they do not, or where it is more than may be held
	pass  bool   // the pieces pass as they come
	over  bool   // the client has its answer, whatever still comes
}

// patience is how long the headers of a stream wait for something to be said. An error comes within moments; a model
// may think for minutes, and proxies on the way to the client give up on an answer without headers after about one.
const patience = 15 * time.Second

// maxAnswer bounds an answer that is needed whole, as the limit of what Envoy buffers bounds the others.
const maxAnswer = 48 << 20

var errAnswerTooLarge = &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer,
	Code:    openai.CodeUpstreamResponseTooLarge,
	Message: "The provider's answer is larger than the gateway can hold."}

// await keeps the reply to an answer's headers back where it depends on the body.
func (x *Exchange) await(reply Reply, end bool) Reply {
	mode := reply.ResponseBody
	reply.ResponseBody = Keep
	switch {
	case reply.Immediate != nil || end:
		return reply
	case mode == Buffered:
		x.duplex.head, x.duplex.whole = &reply, true
		return Reply{Wait: true}
	case x.state == inStream:
		x.duplex.head = &reply
		return Reply{Wait: true, Patience: patience}
	}
	x.duplex.pass = mode == None
	return reply
}

// nextPiece takes a piece of a body.
func (x *Exchange) nextPiece(ctx context.Context, piece []byte, end bool) Reply {
	d := &x.duplex
	if d.over {
		return Reply{Wait: true}
	}
	if d.whole {
		if len(d.body)+len(piece) > maxAnswer {
			d.over = true
			x.salvage(d.body)
			return x.failUpstream(errAnswerTooLarge, "mg_answer_too_large")
		}
		switch {
		case x.noRoom:
			d.over = true
			x.salvage(d.body)
			return x.failUpstream(errNoRoom, "mg_no_room")
		case d.body == nil && int64(len(piece)) < d.size:
			d.body = append(make([]byte, 0, d.size), piece...)
		case d.body == nil:
			d.body = slices.Clip(piece) // most come in one
		default:
			d.body = append(d.body, piece...)
		}
		if !end {
			return Reply{Wait: true}
		}
		piece, d.body = d.body, nil
	}
	var reply Reply
	if !d.pass {
		reply = x.responseBody(ctx, piece, end)
	}
	switch {
	case reply.Immediate != nil:
		d.over = true
		return reply
	case reply.ReplaceBody:
		piece = reply.Body
	}
	return x.release(piece, end, reply.Set)
}

// release sends a piece, and before it the headers if they have waited.
func (x *Exchange) release(piece []byte, end bool, set Headers) Reply {
	reply := Reply{Piece: true, Body: piece, End: end}
	if len(piece) == 0 && !end {
		reply.Wait = true
		return reply
	}
	if x.duplex.head != nil {
		reply.Head, x.duplex.head = x.duplex.head, nil
		reply.Head.Set = append(reply.Head.Set, set...)
	}
	x.record.Sent += int64(len(piece))
	return reply
}

// Release lets the headers of a stream go that have waited as long as they may, and reports whether there are any.
// What is wrong with the answer is told within it from now on. Of a request that drains it is the whole answer that
// goes.
func (x *Exchange) Release() (Reply, bool) {
	if x.drained != nil && x.drained.answer != nil {
		return x.endDrain(), true
	}
	if x.duplex.head == nil || x.state != inStream {
		return Reply{}, false
	}
	reply := Reply{Piece: true, Head: x.duplex.head, Body: x.pipe.Release()}
	x.duplex.head = nil
	x.record.Sent += int64(len(reply.Body))
	return reply, true
}

// ResponseTrailers takes what follows a Duplex body in the place of its end. Nothing of it is the client's business.
func (x *Exchange) ResponseTrailers(ctx context.Context, h Headers) Reply {
	reply := x.nextPiece(ctx, nil, true)
	reply.End = false
	for i := range h {
		reply.Remove = append(reply.Remove, h[i].Name)
	}
	return reply
}
