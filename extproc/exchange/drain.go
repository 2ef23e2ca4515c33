package exchange

import (
	"sync/atomic"
	"time"
)

// What a client may send on when its answer is decided already. Clients of HTTP/2 lose an answer that comes before
// they have sent their request: Envoy ends the stream behind it, and they read that as an error, or wait.
const (
	// maxDrained bounds the bytes that are taken of one request's body, all of which are thrown away.
	maxDrained = 1 << 20
	// drainTime is how long they may take to arrive.
	drainTime = 5 * time.Second
	// maxDrains bounds the requests that drain at the same time: each is a stream that is held open.
	maxDrains = 1024
)

// A drained request has its answer, which waits for the end of its body.
type drained struct {
	answer *Immediate // nil: it went out, and pieces may have been under way by then
	left   int64      // bytes that may still come
}

// drains counts the requests that drain.
type drains struct{ open atomic.Int64 }

// begin counts a request in where there is room for it.
func (d *drains) begin() bool {
	if d.open.Add(1) <= maxDrains {
		return true
	}
	d.open.Add(-1)
	return false
}

// Drain has the answer that RequestHeaders gave wait until the client has sent the request's body, of which there is
// some. It goes out at once where the body is announced as larger than what is taken, and where too many requests
// drain already.
func (x *Exchange) Drain(answer *Immediate, h Headers) Reply {
	if n, ok := lengthOf(h); ok && n > maxDrained || !x.env.drains.begin() {
		return Reply{Immediate: answer}
	}
	x.drained = &drained{answer: answer, left: maxDrained}
	if x.record.ID == "" { // Envoy has to say who cut it
		x.record.ID = x.env.NewID()
	}
	return Reply{Drain: true, Patience: drainTime, ID: x.record.ID}
}

// Draining reports whether what still comes of the request is for DrainPiece.
func (x *Exchange) Draining() bool { return x.drained != nil }

// DrainPiece throws away a piece of the body, of so many bytes, and lets the answer go with the last that is taken.
func (x *Exchange) DrainPiece(bytes int, end bool) Reply {
	switch x.drained.left -= int64(bytes); {
	case x.drained.answer == nil:
		return Reply{Wait: true}
	case end || x.drained.left <= 0:
		return x.endDrain()
	}
	return Reply{ReplaceBody: true}
}

// endDrain lets the answer go.
func (x *Exchange) endDrain() Reply {
	answer := x.drained.answer
	x.drained.answer = nil
	x.env.drains.open.Add(-1)
	return Reply{Immediate: answer}
}
