package transport_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/extproc/transport"
)

// soon bounds what must not take long.
const soon = 10 * time.Second

// text is a message of bytes.
type text []byte

func (t text) Append(b []byte) []byte { return append(b, t...) }

// An echo sends back what it gets. Some messages have it do other things.
type echo struct {
	stream *transport.Stream
	world  *world
	own    [][]byte // messages that it has kept
}

// A world is a server of echoes, and what they have seen.
type world struct {
	t       *testing.T
	server  *transport.Server
	address string
	release chan struct{} // closed: what waits goes on
	opened  chan *transport.Stream
	closed  chan error // the context's at the close of a handler
	panics  chan any
	served  chan error

	mu     sync.Mutex // guards roles
	header []string
}

func (w *world) service(s *transport.Stream, h transport.Headers) (transport.Handler, error) {
	if h.Get(":path") != "/echo/Echo" {
		return nil, status.Errorf(codes.Unimplemented, "there is no %q: ü%%", h.Get(":path"))
	}
	w.mu.Lock()
	w.header = append(w.header, h.Get("x-role"))
	w.mu.Unlock()
	select {
	case w.opened <- s:
	default:
	}
	return &echo{stream: s, world: w}, nil
}

func (e *echo) Message(b []byte, owned bool) error {
	switch {
	case bytes.HasPrefix(b, []byte("fail")):
		return status.Error(codes.FailedPrecondition, string(b))
	case bytes.HasPrefix(b, []byte("panic")):
		panic(string(b))
	case bytes.HasPrefix(b, []byte("wait")):
		kept := bytes.Clone(b)
		return e.stream.Go(func() error {
			select {
			case <-e.world.release:
			case <-e.stream.Done():
				return e.stream.Err()
			}
			return e.stream.Send(text(kept))
		})
	case bytes.HasPrefix(b, []byte("silent")):
		return e.stream.Go(func() error {
			ctx, cancel := e.stream.Silent()
			defer cancel()
			<-ctx.Done()
			return e.stream.Send(text("heard"))
		})
	case bytes.HasPrefix(b, []byte("keep")):
		if !owned {
			b = bytes.Clone(b)
		}
		e.own = append(e.own, b)
		return nil
	case bytes.HasPrefix(b, []byte("give")):
		for _, kept := range e.own {
			if err := e.stream.Send(text(kept)); err != nil {
				return err
			}
		}
		return nil
	}
	return e.stream.Send(text(b))
}

func (e *echo) Close() error {
	select {
	case e.world.closed <- e.stream.Err():
	default:
	}
	return nil
}

// serve starts a server on a Unix socket.
func serve(t *testing.T) *world { return serveHolding(t, 0) }

// serveHolding starts one with a bound on what a connection may hold.
func serveHolding(t *testing.T, most int) *world {
	w := &world{t: t, address: filepath.Join(t.TempDir(), "s"), release: make(chan struct{}), panics: make(chan any, 10),
		opened: make(chan *transport.Stream, 1000), closed: make(chan error, 100_000), served: make(chan error, 1)}
	w.server = transport.New(transport.Options{Service: w.service, MaxMessage: 8 << 20, MaxHeld: most,
		Panicked: func(reason any, stack []byte) {
			if len(stack) > 0 {
				w.panics <- reason
			}
		}})
	l, err := net.Listen("unix", w.address)
	require.NoError(t, err)
	go func() { w.served <- w.server.Serve(l) }()
	t.Cleanup(func() {
		w.server.Stop()
		require.ErrorIs(t, <-w.served, transport.ErrStopped)
	})
	return w
}

// raw is a codec of bytes as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// dial returns grpc-go's client.
func (w *world) dial(o ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	c, err := grpc.NewClient("unix:"+w.address, append(o, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(64<<20)))...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// streams go both ways.
var streams = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

type call struct{ grpc.ClientStream }

func (w *world) open(ctx context.Context, c *grpc.ClientConn, path string) call {
	w.t.Helper()
	s, err := c.NewStream(ctx, &streams, path)
	require.NoError(w.t, err)
	return call{s}
}

func (c call) say(t *testing.T, message string) {
	t.Helper()
	b := []byte(message)
	require.NoError(t, c.SendMsg(&b))
}

func (c call) hear() (string, error) {
	var b []byte
	err := c.RecvMsg(&b)
	return string(b), err
}

// A peer speaks frames.
type peer struct {
	t       *testing.T
	conn    net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	grant   int // bytes that [peer.ending] gives the server when it has read some
}

// connect begins a connection by frames.
func (w *world) connect(settings ...http2.Setting) *peer {
	w.t.Helper()
	c, err := net.Dial("unix", w.address)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	require.NoError(w.t, c.SetDeadline(time.Now().Add(soon)))
	p := &peer{t: w.t, conn: c, framer: http2.NewFramer(c, c)}
	p.framer.AllowIllegalWrites, p.framer.AllowIllegalReads = true, true
	p.encoder = hpack.NewEncoder(&p.block)
	_, err = io.WriteString(c, http2.ClientPreface)
	require.NoError(w.t, err)
	require.NoError(w.t, p.framer.WriteSettings(settings...))
	return p
}

// fields encodes a header block.
func (p *peer) fields(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(p.t, p.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	return bytes.Clone(p.block.Bytes())
}

// good are the headers of an echo.
func (p *peer) good(more ...string) []byte {
	return p.fields(append([]string{":method", "POST", ":scheme", "http", ":path", "/echo/Echo", ":authority", "x",
		"content-type", "application/grpc", "te", "trailers"}, more...)...)
}

func (p *peer) headers(id uint32, block []byte, end bool) {
	p.t.Helper()
	require.NoError(p.t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block,
		EndHeaders: true,
		EndStream:  end}))
}

// message frames a message as gRPC does.
func message(s string) []byte {
	n := len(s)
	return append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, s...)
}

// until reads frames until one that is wanted, and returns a description of it. Others are returned too, before it.
func (p *peer) until(want func(http2.Frame) bool) http2.Frame {
	p.t.Helper()
	for {
		f, err := p.framer.ReadFrame()
		require.NoError(p.t, err)
		if want(f) {
			return f
		}
	}
}

// goAway returns the code with which the server ends the connection.
func (p *peer) goAway() http2.ErrCode {
	p.t.Helper()
	return p.until(func(f http2.Frame) bool { _, ok := f.(*http2.GoAwayFrame); return ok }).(*http2.GoAwayFrame).ErrCode
}

// reset returns the code with which the server ends a stream.
func (p *peer) reset(id uint32) http2.ErrCode {
	p.t.Helper()
	return p.until(func(f http2.Frame) bool {
		r, ok := f.(*http2.RSTStreamFrame)
		return ok && r.StreamID == id
	}).(*http2.RSTStreamFrame).ErrCode
}

// pong waits until the server has read everything.
func (p *peer) pong() {
	p.t.Helper()
	require.NoError(p.t, p.framer.WritePing(false, [8]byte{1}))
	p.until(func(f http2.Frame) bool { g, ok := f.(*http2.PingFrame); return ok && g.IsAck() })
}
