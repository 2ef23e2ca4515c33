package carrier

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// A carrier passes Envoy's messages to an exchange and its replies to Envoy.
type carrier struct {
	carriers *Carriers
	link     Link
	drains   bool
	typed    bool

	mu       sync.Mutex // guards the fields below: a timer releases headers that wait
	exchange *exchange.Exchange
	timer    *time.Timer
	out      Response
	instead  *substitute // nil: the answer is Envoy's
	closed   bool
}

// Close implements [Handler].
func (c *carrier) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.instead != nil {
		c.instead.cancel()
	}
	if p := c.exchange.Plan(); p != nil {
		c.carriers.plans.Delete(p.ID)
	}
	c.carriers.Closed(c.exchange.Close())
	c.carriers.open.Add(-1)
	return nil
}

// Take implements [Handler].
func (c *carrier) Take(in *Message) error {
	if c.mayWait(in) {
		kept := *in
		in.Body = nil
		return c.link.Go(func() error { return c.carry(&kept) })
	}
	return c.carry(in)
}

// mayWait reports whether a message may have to wait for the store of limits, the ledger, checkers or room, or is so
// much work that other streams would wait.
func (c *carrier) mayWait(in *Message) bool {
	switch in.Phase {
	case RequestHeaders:
		return in.End || c.carriers.LimitsWait // a request without a body may be a report, which needs the ledger
	case RequestBody:
		return c.carriers.LimitsWait || c.exchange.IsHeavy(len(in.Body))
	case ResponseBody, ResponseTrailers:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.instead == nil && c.mayWaitForAnswer(in)
	}
	return false
}

// mayWaitForAnswer is mayWait for a piece of the answer. The caller holds the lock.
func (c *carrier) mayWaitForAnswer(in *Message) bool {
	return c.exchange.IsHeavy(len(in.Body)) || c.exchange.Room(len(in.Body)) > 0 || c.exchange.MayJudge(len(in.Body)) ||
		c.carriers.LimitsWait && c.exchange.InSession()
}

// carry passes a message to the exchange, and the reply to Envoy.
func (c *carrier) carry(in *Message) error {
	queued, err := c.step(in)
	in.Body = nil // the stream has the message until the next one
	if queued {
		return c.link.Go(c.turn)
	}
	return err
}

// step is carry without the wait for the exchange's turn.
func (c *carrier) step(in *Message) (queued bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.instead != nil {
		c.instead.ignore(in)
		return false, nil
	}
	if in.Phase == ResponseBody {
		if need := c.exchange.Room(len(in.Body)); need > 0 {
			c.exchange.AwaitRoom(c.link, need)
		}
	}
	reply, ok := step(c.link, c.exchange, in)
	if reply.Immediate != nil && in.Phase == RequestHeaders && !in.End && c.drains {
		reply = c.exchange.Drain(reply.Immediate, in.Headers)
	}
	switch {
	case !ok:
		return false, errUnexpected
	case reply.Queue:
		return true, nil
	}
	if reply.Again != nil {
		c.begin(in.Phase, &reply, in.End)
		return false, nil
	}
	return false, c.reply(in.Phase, &reply)
}

// reply sends the reply to a message of a phase to Envoy.
func (c *carrier) reply(p Phase, reply *exchange.Reply) error {
	if reply.Plan != nil {
		c.carriers.plans.Store(reply.Plan.ID, reply.Plan)
	}
	if reply.Patience > 0 {
		c.timer = time.AfterFunc(reply.Patience, func() { c.carriers.protect(c, c.release) })
	}
	return c.send(p, reply)
}

// turn waits for the exchange's turn, or for Envoy's next message. Any message means that the client does not wait any
// more.
func (c *carrier) turn() error {
	ctx, leave := c.link.Silent()
	defer leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = Response{Patience: envoy.LongestWait}
	if err := c.link.Send(&c.out); err != nil {
		return err
	}
	reply := c.exchange.Turn(ctx)
	return c.reply(RequestBody, &reply)
}

// release sends headers that have waited too long.
func (c *carrier) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	reply, ok := c.exchange.Release()
	if reply.Patience > 0 {
		c.timer.Reset(reply.Patience)
	}
	if ok {
		_ = c.send(ResponseBody, &reply) // if it fails, reading fails too
	}
}

// send sends the reply to a message of a phase: none, one, or the waiting reply to the headers and one.
func (c *carrier) send(p Phase, reply *exchange.Reply) error {
	if reply.Head != nil {
		if c.timer != nil {
			c.timer.Stop()
		}
		if err := c.write(ResponseHeaders, reply.Head); err != nil {
			return err
		}
	}
	said := len(reply.Body) > 0 || reply.End || !reply.Piece
	if p == ResponseTrailers && reply.Piece {
		if said {
			if err := c.write(ResponseBody, reply); err != nil {
				return err
			}
		}
		return c.write(p, reply)
	}
	if reply.Wait || !said {
		return nil
	}
	return c.write(p, reply)
}

func (c *carrier) write(p Phase, reply *exchange.Reply) error {
	c.out = Response{Phase: p, Reply: reply, Typed: c.typed}
	err := c.link.Send(&c.out)
	c.out.Reply = nil // likewise
	return err
}

var errUnexpected = errors.New("unexpected message")

// step passes a message of Envoy to the exchange.
func step(ctx context.Context, x *exchange.Exchange, in *Message) (exchange.Reply, bool) {
	switch in.Phase {
	case RequestHeaders:
		return x.RequestHeaders(ctx, in.Headers, in.End), true
	case RequestBody:
		if x.Draining() {
			return x.DrainPiece(len(in.Body), in.End), true
		}
		return x.RequestBody(ctx, in.Body), true
	case RequestTrailers:
		if x.Draining() {
			return x.DrainPiece(0, true), true
		}
	case ResponseHeaders:
		return x.ResponseHeaders(in.Headers, in.Facts, in.End), true
	case ResponseBody:
		return x.ResponseBody(ctx, in.Body, in.End), true
	case ResponseTrailers:
		return x.ResponseTrailers(ctx, in.Headers), true
	}
	return exchange.Reply{}, false
}
