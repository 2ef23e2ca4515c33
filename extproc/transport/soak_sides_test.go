package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/extproc/transport"
)

// soakMessage bounds a message of the soak, on both sides.
const soakMessage = 4 << 20

// A carrier is a server of either transport.
type carrier interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context)
}

// viaGRPC makes a carrier of grpc-go's server, as the service of ext_proc does.
type viaGRPC struct{ *grpc.Server }

func (g viaGRPC) Shutdown(ctx context.Context) {
	defer context.AfterFunc(ctx, g.Stop)()
	g.GracefulStop()
}

// A side is one of the two transports, with its clients and with what its handlers have seen.
type side struct {
	name    string
	make    func() carrier
	world   *world // where it listens; its server is not used
	clients []*grpc.ClientConn
	longest time.Duration // of a script of frames
	carrier carrier
	door    *door
	served  chan error

	mu     sync.Mutex // guards what follows
	opened map[string]int
	closed map[string]int
}

func newSide(t *testing.T, name string) *side {
	s := &side{name: name, world: &world{t: t, address: filepath.Join(t.TempDir(), "s")}, opened: map[string]int{},
		closed: map[string]int{}}
	switch name {
	case "grpc-go":
		s.make = func() carrier {
			return viaGRPC{grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(s.stream),
				grpc.MaxRecvMsgSize(soakMessage), grpc.MaxConcurrentStreams(1<<20), grpc.WaitForHandlers(true))}
		}
	default:
		s.make = func() carrier {
			return transport.New(transport.Options{MaxMessage: soakMessage, Service: s.service,
				Panicked: func(reason any, stack []byte) { t.Errorf("panic: %v\n%s", reason, stack) }})
		}
	}
	s.start(t)
	for range 3 {
		s.clients = append(s.clients, s.world.dial(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.1, MaxDelay: 50 * time.Millisecond},
			MinConnectTimeout: time.Second})))
	}
	return s
}

// A door is a listener that tells when it is closed: grpc-go's Serve returns only when every stream has ended.
type door struct {
	net.Listener
	once   sync.Once
	closed chan struct{}
}

func (d *door) Close() error {
	defer d.once.Do(func() { close(d.closed) })
	return d.Listener.Close()
}

// start serves at the address.
func (s *side) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", s.world.address)
	require.NoError(t, err)
	carrier := s.make()
	s.carrier, s.door, s.served = carrier, &door{Listener: l, closed: make(chan struct{})}, make(chan error, 1)
	go func(d *door, served chan error) { served <- carrier.Serve(d) }(s.door, s.served)
}

// stop shuts the server down, and returns once it listens no more. What it returns waits until every stream has ended.
func (s *side) stop(t *testing.T) (wait func()) {
	ended, carrier, served := make(chan struct{}), s.carrier, s.served
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		carrier.Shutdown(ctx)
		if ctx.Err() != nil {
			t.Errorf("%s: streams are stuck", s.name)
		}
		err := <-served
		if err != nil && !errors.Is(err, transport.ErrStopped) && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("%s: %v", s.name, err)
		}
	}()
	<-s.door.closed
	return func() { <-ended }
}

// mark counts a handler's beginning or end.
func (s *side) mark(in map[string]int, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in[id]++
}

// act returns what an echo does with a message: it waits for its context to end, or answers so many times, or fails.
func act(b []byte) (stall bool, answers int, err error) {
	switch {
	case bytes.HasPrefix(b, []byte("fail")):
		return false, 0, status.Error(codes.FailedPrecondition, "as asked")
	case bytes.HasPrefix(b, []byte("stall")):
		return true, 0, nil
	case bytes.HasPrefix(b, []byte("many")):
		return false, 5, nil
	case bytes.HasPrefix(b, []byte("mute")):
		return false, 0, nil
	}
	return false, 1, nil
}

func (s *side) service(stream *transport.Stream, h transport.Headers) (transport.Handler, error) {
	if h.Get(":path") != "/echo/Echo" {
		return nil, status.Error(codes.Unimplemented, "no such method")
	}
	id := h.Get("x-id")
	s.mark(s.opened, id)
	return &soaked{side: s, stream: stream, id: id}, nil
}

// soaked is the echo of extproc/transport.
type soaked struct {
	side   *side
	stream *transport.Stream
	id     string
}

func (e *soaked) Message(b []byte, _ bool) error {
	stall, answers, err := act(b)
	if err != nil {
		return err
	}
	if stall {
		return e.stream.Go(func() error {
			<-e.stream.Done()
			return status.FromContextError(e.stream.Err()).Err()
		})
	}
	send := func(b []byte) error {
		for range answers {
			if err := e.stream.Send(text(b)); err != nil {
				return err
			}
		}
		return nil
	}
	if !bytes.HasPrefix(b, []byte("wait")) {
		return send(b)
	}
	kept := bytes.Clone(b)
	return e.stream.Go(func() error { return send(kept) })
}

func (e *soaked) Close() error {
	e.side.mark(e.side.closed, e.id)
	return nil
}

// stream is the echo of grpc-go.
func (s *side) stream(_ any, stream grpc.ServerStream) error {
	if method, _ := grpc.MethodFromServerStream(stream); method != "/echo/Echo" {
		return status.Error(codes.Unimplemented, "no such method")
	}
	var id string
	if md, _ := metadata.FromIncomingContext(stream.Context()); len(md["x-id"]) > 0 {
		id = md["x-id"][0]
	}
	s.mark(s.opened, id)
	defer s.mark(s.closed, id)
	for {
		var b []byte
		if err := stream.RecvMsg(&b); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		stall, answers, err := act(b)
		if err != nil {
			return err
		}
		if stall {
			<-stream.Context().Done()
			return status.FromContextError(stream.Context().Err()).Err()
		}
		for range answers {
			if err := stream.SendMsg(&b); err != nil {
				return err
			}
		}
	}
}
