package exchange

import (
	"sync/atomic"
	"time"

	"github.com/modelgate/modelgate/extproc/call"
)

// Bounds on the body that a client may still send after its request was refused. HTTP/2 clients lose an answer that
// arrives before they have sent their request: Envoy ends the stream after the answer, and the clients report an
// error, or wait.
const (
	// maxDrained bounds the bytes of one request's body that are read and discarded.
	maxDrained = 1 << 20
	// drainTime bounds the time for these bytes to arrive.
	drainTime = 5 * time.Second
	// maxDrains bounds the requests that drain at the same time, because each keeps a stream open.
	maxDrains = 1024
)

// A drained request has an answer that waits for the end of the request's body.
type drained struct {
	answer *Immediate // nil: it was sent, but more pieces may arrive
	left   int64      // bytes that may still arrive
}

// drains counts a request if the number of draining requests allows it.
func drains(open *atomic.Int64) bool {
	if open.Add(1) <= maxDrains {
		return true
	}
	open.Add(-1)
	return false
}

// Drain delays the answer of RequestHeaders until the client has sent the request's body. The request must have a
// body. The answer is not delayed if the announced body is larger than maxDrained, if the client waits for an upgrade
// before it sends more, or if too many requests drain already.
func (x *Exchange) Drain(answer *Immediate, h Headers) Reply {
	if n, ok := call.LengthOf(h); ok && n > maxDrained || h.Get("upgrade") != "" || !drains(&x.c.Env.Drains) {
		return Reply{Immediate: answer}
	}
	x.drained = &drained{answer: answer, left: maxDrained}
	if x.c.Record.ID == "" { // Envoy's log has to say who ended it
		x.c.Record.ID = x.c.Env.NewID()
	}
	return x.c.Begun(Reply{Drain: true, Patience: drainTime})
}

// Draining reports whether the rest of the request is for DrainPiece.
func (x *Exchange) Draining() bool { return x.drained != nil }

// DrainPiece discards a piece of the body. It sends the answer with the last piece that is accepted.
func (x *Exchange) DrainPiece(bytes int, end bool) Reply {
	switch x.drained.left -= int64(bytes); {
	case x.drained.answer == nil:
		return Reply{Wait: true}
	case end || x.drained.left <= 0:
		return x.endDrain()
	}
	return Reply{ReplaceBody: true}
}

// endDrain sends the answer.
func (x *Exchange) endDrain() Reply {
	answer := x.drained.answer
	x.drained.answer = nil
	x.c.Env.Drains.Add(-1)
	return Reply{Immediate: answer}
}
