package extproc

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/extproc/wire"
)

// processorService is envoy.service.ext_proc.v3.ExternalProcessor, over messages of our own: see package wire.
var processorService = grpc.ServiceDesc{
	ServiceName: "envoy.service.ext_proc.v3.ExternalProcessor",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName:    "Process",
		Handler:       func(s any, stream grpc.ServerStream) error { return s.(*Server).process(stream) },
		ServerStreams: true,
		ClientStreams: true,
	}},
}

// recoverPanic has a panic end the stream that it is on, with an error, and nothing else.
func (s *Server) recoverPanic(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	handle grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("panic on a stream", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handle(srv, stream)
}

// process serves one stream of one ext_proc filter. Which filter it is, Envoy says in the stream's metadata.
func (s *Server) process(stream grpc.ServerStream) error {
	s.drain.exchanges.Add(1)
	defer s.drain.exchanges.Add(-1)
	role := metadata.ValueFromIncomingContext(stream.Context(), envoy.RoleHeader)
	switch {
	case len(role) == 1 && role[0] == envoy.RoleDownstream:
		return s.downstream(stream, exchange.New)
	case len(role) == 1 && role[0] == envoy.RoleInternal:
		return s.downstream(stream, exchange.NewInternal)
	case len(role) == 1 && role[0] == envoy.RoleUpstream:
		return s.upstream(stream)
	}
	return status.Errorf(codes.InvalidArgument, "unknown role %q", role)
}

// downstream carries one exchange, from its request headers to its end.
func (s *Server) downstream(stream grpc.ServerStream,
	open func(*exchange.Env, *exchange.Config) *exchange.Exchange) error {
	c := &carrier{server: s, stream: stream, exchange: open(&s.env, s.configuration())}
	defer c.close()
	if len(metadata.ValueFromIncomingContext(stream.Context(), envoy.PlacesHeader)) > 0 {
		c.exchange.HasPlaces()
	}
	var in wire.Message
	receive := func() error { return stream.RecvMsg(&in) }
	for {
		err := receive()
		receive = func() error { return stream.RecvMsg(&in) }
		if errors.Is(err, io.EOF) {
			return nil // Envoy has closed its side: the only end that is not an error
		}
		if err != nil {
			return err
		}
		queued, err := c.take(&in)
		if err == nil && queued {
			receive, err = c.queue(&in)
		}
		if err != nil {
			return err
		}
	}
}

// A carrier gives Envoy's messages to an exchange and its replies to Envoy.
type carrier struct {
	server *Server
	stream grpc.ServerStream

	mu       sync.Mutex // guards what follows: headers that wait are let go of by a timer
	exchange *exchange.Exchange
	timer    *time.Timer
	out      wire.Response
	closed   bool
}

func (c *carrier) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if p := c.exchange.Plan(); p != nil {
		c.server.plans.Delete(p.ID)
	}
	c.server.journal.exchange(c.exchange.Close())
}

// take carries a message, and reports whether the exchange has to wait for its turn.
func (c *carrier) take(in *wire.Message) (queued bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.Phase == wire.ResponseBody {
		c.exchange.Room(c.stream.Context(), len(in.Body))
	}
	reply, ok := step(c.stream.Context(), c.exchange, in)
	if reply.Immediate != nil && in.Phase == wire.RequestHeaders && !in.End && c.drains() {
		reply = c.exchange.Drain(reply.Immediate, in.Headers)
	}
	switch {
	case !ok:
		return false, status.Error(codes.InvalidArgument, "unexpected message")
	case reply.Queue:
		return true, nil
	}
	return false, c.reply(in.Phase, &reply)
}

// drains reports whether the listener holds a request from its way on while the body of it comes.
func (c *carrier) drains() bool {
	return len(metadata.ValueFromIncomingContext(c.stream.Context(), envoy.DrainsHeader)) > 0
}

// reply gives Envoy the reply to a message of a phase.
func (c *carrier) reply(p wire.Phase, reply *exchange.Reply) error {
	if reply.Plan != nil {
		c.server.plans.Store(reply.Plan.ID, reply.Plan)
	}
	if reply.Patience > 0 {
		c.timer = time.AfterFunc(reply.Patience, c.release)
	}
	return c.send(p, reply)
}

// queue waits for the exchange's turn, and meanwhile for what Envoy says next into in: whatever it is, the client
// waits no more. It returns how that next message is received.
func (c *carrier) queue(in *wire.Message) (receive func() error, err error) {
	ctx, leave := context.WithCancel(c.stream.Context())
	defer leave()
	received := make(chan error, 1)
	go func() {
		received <- c.stream.RecvMsg(in)
		leave()
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	reply := c.exchange.Turn(ctx)
	return func() error { return <-received }, c.reply(wire.RequestBody, &reply)
}

// release sends headers that have waited for long enough.
func (c *carrier) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if reply, ok := c.exchange.Release(); ok {
		_ = c.send(wire.ResponseBody, &reply) // where it fails, reading fails too
	}
}

// send gives Envoy the reply to a message of a phase: none, one, or that to the headers and one.
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
	return c.stream.SendMsg(&c.out)
}

// step gives a message of Envoy's to the exchange.
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

// upstream carries one attempt after the first: its headers come once, and go out with the body for its provider.
// Every other way out is an error, for the request must not go on as it was made for another provider.
func (s *Server) upstream(stream grpc.ServerStream) error {
	var in wire.Message
	if err := stream.RecvMsg(&in); err != nil {
		return status.Error(codes.Aborted, "no message")
	}
	found, ok := s.plans.Load(in.Request)
	if !ok {
		return status.Errorf(codes.NotFound, "no plan %q", in.Request)
	}
	p, n := found.(*routing.Plan), in.Facts.Attempts
	if n < 2 || n > len(p.Targets) || p.Targets[n-1].Cluster != in.Facts.Cluster {
		return status.Errorf(codes.FailedPrecondition, "attempt %d at %q is not planned", n, in.Facts.Cluster)
	}
	attempt, err := p.Encode(n)
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if err := stream.SendMsg(&wire.Response{Phase: in.Phase, Attempt: &attempt}); err != nil {
		return err
	}
	if err := stream.RecvMsg(&in); !errors.Is(err, io.EOF) {
		return status.Error(codes.Aborted, "unexpected message after an attempt's headers")
	}
	return nil
}
