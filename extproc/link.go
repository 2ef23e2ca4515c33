package extproc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/extproc/wire"
)

// A link is a stream of Envoy over either transport. It is also the context of the stream.
type link interface {
	context.Context
	Send(transport.Message) error
	// Go calls a function that may wait. The handler of a message calls it last.
	Go(func() error) error
	// Silent returns a context that ends with the stream, or with Envoy's next message. It is called inside Go.
	Silent() (context.Context, context.CancelFunc)
}

// A handler handles Envoy's messages on one stream, one at a time. A message is valid until take returns. Its body may
// be kept.
type handler interface {
	take(*wire.Message) error
	// close is called once, at the end. Its error is the status of the stream, unless the stream has ended with another.
	close() error
}

// traits are the properties of a stream that Envoy sends as metadata.
type traits struct {
	role string
	// certificates is the gateway whose clients may present them; empty: they may not.
	certificates string
	drains       bool // the listener can hold a request back while its body drains
}

// traitsOf reads the traits. The function get returns the value of a header, or "".
func traitsOf(get func(name string) string) traits {
	return traits{role: get(envoy.RoleHeader), drains: get(envoy.DrainsHeader) != "",
		certificates: get(envoy.CertificatesHeader)}
}

// A leanHandler passes messages of extproc/transport to a handler.
type leanHandler struct {
	handler handler
	in      wire.Message
}

// Message implements [transport.Handler].
func (h *leanHandler) Message(b []byte, owned bool) error {
	if err := h.in.Decode(b); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if !owned {
		h.in.Body = append([]byte(nil), h.in.Body...)
	}
	return h.handler.take(&h.in)
}

// Close implements [transport.Handler].
func (h *leanHandler) Close() error { return h.handler.close() }

// A grpcLink is a stream of grpc-go. It has its own goroutine, which may wait.
type grpcLink struct {
	context.Context

	stream grpc.ServerStream
	in     wire.Message
	next   chan error // nil: no goroutine receives
}

// Send implements link.
func (l *grpcLink) Send(m transport.Message) error { return l.stream.SendMsg(m) }

// Go implements link.
func (l *grpcLink) Go(f func() error) error { return f() }

// Silent implements link. The next received message ends the context.
func (l *grpcLink) Silent() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(l.Context)
	next := make(chan error, 1)
	l.next = next
	go func() {
		next <- l.stream.RecvMsg(&l.in)
		cancel()
	}()
	return ctx, cancel
}

func (l *grpcLink) receive() error {
	if next := l.next; next != nil {
		l.next = nil
		return <-next
	}
	return l.stream.RecvMsg(&l.in)
}

// process serves a stream of an ext_proc filter with grpc-go.
func (s *Server) process(stream grpc.ServerStream) (err error) {
	l := &grpcLink{Context: stream.Context(), stream: stream}
	h, err := s.open(l, traitsOf(func(name string) string {
		if values := metadata.ValueFromIncomingContext(l.Context, name); len(values) == 1 {
			return values[0]
		}
		return ""
	}))
	if err != nil {
		return err
	}
	defer func() {
		if closed := h.close(); err == nil {
			err = closed
		}
	}()
	for {
		if err := l.receive(); errors.Is(err, io.EOF) {
			return nil // Envoy has closed its side: the only end without an error
		} else if err != nil {
			return err
		}
		if err := h.take(&l.in); err != nil {
			return err
		}
	}
}
