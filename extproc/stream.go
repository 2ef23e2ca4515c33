package extproc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/extproc/wire"
)

// open returns the handler of a stream of an ext_proc filter. The stream's metadata tells which filter it is.
func (s *Server) open(l link, t traits) (handler, error) {
	var exchanges func(*exchange.Env, *exchange.Config) *exchange.Exchange
	switch t.role {
	case envoy.RoleDownstream:
		exchanges = exchange.New
	case envoy.RoleInternal:
		exchanges = exchange.NewInternal
	case envoy.RoleUpstream:
		s.drain.exchanges.Add(1)
		return &attempt{server: s, link: l}, nil
	default:
		return nil, status.Errorf(codes.InvalidArgument, "unknown role %q", t.role)
	}
	s.drain.exchanges.Add(1)
	c := &carrier{server: s, link: l, drains: t.drains, exchange: exchanges(&s.env, s.configuration())}
	if t.certificates != "" && t.role == envoy.RoleDownstream {
		c.exchange.SetGateway(t.certificates)
	}
	return c, nil
}

// A carrier passes Envoy's messages to an exchange and its replies to Envoy.
type carrier struct {
	server *Server
	link   link
	drains bool

	mu       sync.Mutex // guards the fields below: a timer releases headers that wait
	exchange *exchange.Exchange
	timer    *time.Timer
	out      wire.Response
	instead  *substitute // nil: the answer is Envoy's
	closed   bool
}

func (c *carrier) close() error {
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
		c.server.plans.Delete(p.ID)
	}
	c.server.journal.exchange(c.exchange.Close())
	c.server.drain.exchanges.Add(-1)
	return nil
}

// take handles a message.
func (c *carrier) take(in *wire.Message) error {
	if c.mayWait(in) {
		kept := *in
		in.Body = nil
		return c.link.Go(func() error { return c.carry(&kept) })
	}
	return c.carry(in)
}

// mayWait reports whether a message may have to wait for the store of limits, the ledger, checkers or room, or is so
// much work that other streams would wait.
func (c *carrier) mayWait(in *wire.Message) bool {
	switch in.Phase {
	case wire.RequestHeaders:
		return in.End || c.server.limitsWait // a request without a body may be a report, which needs the ledger
	case wire.RequestBody:
		return c.server.limitsWait || c.exchange.IsHeavy(len(in.Body))
	case wire.ResponseBody, wire.ResponseTrailers:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.instead == nil && c.mayWaitForAnswer(in)
	}
	return false
}

// mayWaitForAnswer is mayWait for a piece of the answer. The caller holds the lock.
func (c *carrier) mayWaitForAnswer(in *wire.Message) bool {
	return c.exchange.IsHeavy(len(in.Body)) || c.exchange.Room(len(in.Body)) > 0 || c.exchange.MayJudge(len(in.Body)) ||
		c.server.limitsWait && c.exchange.InSession()
}

// carry passes a message to the exchange, and the reply to Envoy.
func (c *carrier) carry(in *wire.Message) error {
	queued, err := c.step(in)
	in.Body = nil // the stream has the message until the next one
	if queued {
		return c.link.Go(c.turn)
	}
	return err
}

// step is carry without the wait for the exchange's turn.
func (c *carrier) step(in *wire.Message) (queued bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.instead != nil {
		c.instead.ignore(in)
		return false, nil
	}
	if in.Phase == wire.ResponseBody {
		if need := c.exchange.Room(len(in.Body)); need > 0 {
			c.exchange.AwaitRoom(c.link, need)
		}
	}
	reply, ok := step(c.link, c.exchange, in)
	if reply.Immediate != nil && in.Phase == wire.RequestHeaders && !in.End && c.drains {
		reply = c.exchange.Drain(reply.Immediate, in.Headers)
	}
	switch {
	case !ok:
		return false, status.Error(codes.InvalidArgument, "unexpected message")
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
func (c *carrier) reply(p wire.Phase, reply *exchange.Reply) error {
	if reply.Plan != nil {
		c.server.plans.Store(reply.Plan.ID, reply.Plan)
	}
	if reply.Patience > 0 {
		c.timer = time.AfterFunc(reply.Patience, c.release)
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
	c.out = wire.Response{Patience: envoy.LongestWait}
	if err := c.link.Send(&c.out); err != nil {
		return err
	}
	reply := c.exchange.Turn(ctx)
	return c.reply(wire.RequestBody, &reply)
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
		_ = c.send(wire.ResponseBody, &reply) // if it fails, reading fails too
	}
}

// send sends the reply to a message of a phase: none, one, or the waiting reply to the headers and one.
func (c *carrier) send(p wire.Phase, reply *exchange.Reply) error {
	if reply.Head != nil {
		if c.timer != nil {
			c.timer.Stop()
		}
		if err := c.write(wire.ResponseHeaders, reply.Head); err != nil {
			return err
		}
	}
	said := len(reply.Body) > 0 || reply.End || !reply.Piece
	if p == wire.ResponseTrailers && reply.Piece {
		if said {
			if err := c.write(wire.ResponseBody, reply); err != nil {
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

func (c *carrier) write(p wire.Phase, reply *exchange.Reply) error {
	c.out = wire.Response{Phase: p, Reply: reply}
	err := c.link.Send(&c.out)
	c.out.Reply = nil // likewise
	return err
}

// step passes a message of Envoy to the exchange.
func step(ctx context.Context, x *exchange.Exchange, in *wire.Message) (exchange.Reply, bool) {
	switch in.Phase {
	case wire.RequestHeaders:
		return x.RequestHeaders(ctx, in.Headers, in.End), true
	case wire.RequestBody:
		if x.Draining() {
			return x.DrainPiece(len(in.Body), in.End), true
		}
		return x.RequestBody(ctx, in.Body), true
	case wire.RequestTrailers:
		if x.Draining() {
			return x.DrainPiece(0, true), true
		}
	case wire.ResponseHeaders:
		return x.ResponseHeaders(in.Headers, in.Facts, in.End), true
	case wire.ResponseBody:
		return x.ResponseBody(ctx, in.Body, in.End), true
	case wire.ResponseTrailers:
		return x.ResponseTrailers(ctx, in.Headers), true
	}
	return exchange.Reply{}, false
}

// An attempt handles an attempt after the first, or any to open a session. Its headers arrive once, and the reply has
// the body for its provider. In every other case it returns an error, because the request of another provider must not
// be sent.
type attempt struct {
	server *Server
	link   link
	done   bool
}

func (a *attempt) close() error {
	a.server.drain.exchanges.Add(-1)
	if !a.done {
		return status.Error(codes.Aborted, "no message")
	}
	return nil
}

func (a *attempt) take(in *wire.Message) error {
	if a.done {
		return status.Error(codes.Aborted, "unexpected message after an attempt's headers")
	}
	a.done = true
	found, ok := a.server.plans.Load(in.Request)
	if !ok {
		return status.Errorf(codes.NotFound, "no plan %q", in.Request)
	}
	p, n := found.(*routing.Plan), in.Facts.Attempts
	if n < 1 || n > len(p.Targets) || p.Targets[n-1].Cluster != in.Facts.Cluster {
		return status.Errorf(codes.FailedPrecondition, "attempt %d at %q is not planned", n, in.Facts.Cluster)
	}
	phase := in.Phase
	return a.link.Go(func() error {
		encoded, err := p.Encode(n)
		if err != nil {
			return status.Error(codes.FailedPrecondition, err.Error())
		}
		return a.link.Send(&wire.Response{Phase: phase, Attempt: &encoded})
	})
}
