package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/internal/testenv"
)

// A line is a listener of connections in memory.
type line chan net.Conn

func (l line) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (line) Close() error   { return nil }
func (line) Addr() net.Addr { return &net.UnixAddr{} }

// FuzzFrames gives a connection whatever bytes there are behind the preface. Whatever they are, the connection ends
// when they do, every handler that was opened is closed, and no handler gets a message that is larger than it may be.
func FuzzFrames(f *testing.F) {
	settings := string(frame(0, http2.FrameSettings, 0, 0, ""))
	fields := "\x83\x86\x84\x5f\x10application/grpc" // :method, :scheme, :path, content-type
	head := string(frame(len(fields), http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, fields))
	f.Add([]byte(settings + head + string(frame(6, http2.FrameData, http2.FlagDataEndStream, 1, string(message("x"))))))
	f.Add([]byte(settings + string(frame(8, http2.FramePing, 0, 0, "12345678")) +
		string(frame(4, http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x01"))))
	f.Add([]byte(settings + string(frame(1, http2.FrameHeaders, 0, 1, "\x83")) +
		string(frame(1, http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, "\x86"))))
	f.Fuzz(func(t *testing.T, data []byte) {
		var handlers sync.WaitGroup
		server := transport.New(transport.Options{MaxMessage: 1 << 10,
			Service: func(s *transport.Stream, _ transport.Headers) (transport.Handler, error) {
				handlers.Add(1)
				return &bounded{t: t, stream: s, handlers: &handlers}, nil
			}, Panicked: func(reason any, _ []byte) { panic(reason) }})
		l := make(line, 1)
		client, conn := net.Pipe()
		l <- conn
		close(l)
		require.ErrorIs(t, server.Serve(l), net.ErrClosed)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		_, _ = client.Write(append([]byte(http2.ClientPreface), data...)) // it may have been closed by then
		_ = client.Close()
		handlers.Wait()
		server.Shutdown(t.Context())
	})
}

// bounded waits and answers by turns.
type bounded struct {
	t        *testing.T
	stream   *transport.Stream
	handlers *sync.WaitGroup
	n        int
}

func (b *bounded) Message(m []byte, _ bool) error {
	if len(m) > 1<<10 {
		b.t.Error("too large")
	}
	if b.n++; b.n%2 == 0 {
		return b.stream.Go(func() error { return b.stream.Send(text("x")) })
	}
	return b.stream.Send(text(m))
}

func (b *bounded) Close() error {
	defer b.handlers.Done()
	return nil
}

// TestChurn has streams come and go in every way at once, for as long as there is time, and then looks that nothing is
// left.
func TestChurn(t *testing.T) {
	w := serve(t)
	close(w.release)
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(testenv.Size(1, 20))*time.Second)
	defer stop()
	var all sync.WaitGroup
	for range 4 {
		conn := w.dial()
		for worker := range 16 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				for ctx.Err() == nil {
					if err := once(t.Context(), conn, random); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	w.server.Shutdown(t.Context())
	require.ErrorIs(t, <-w.served, transport.ErrStopped)
	w.served <- transport.ErrStopped
}

// once is one stream of some kind.
func once(ctx context.Context, conn *grpc.ClientConn, random *rand.Rand) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	opened, err := conn.NewStream(ctx, &streams, "/echo/Echo")
	if err != nil {
		return err
	}
	s := call{opened}
	for i := range random.IntN(6) {
		sent := fmt.Sprint(i, strings.Repeat("x", random.IntN(1<<uint(random.IntN(18)))))
		if random.IntN(4) == 0 {
			sent = "wait" + sent
		}
		b := []byte(sent)
		if err := s.SendMsg(&b); err != nil {
			return err
		}
		if random.IntN(8) == 0 {
			return nil // it leaves
		}
		if got, err := s.hear(); err != nil || got != sent {
			return fmt.Errorf("%d bytes for %d: %w", len(got), len(sent), err)
		}
	}
	switch random.IntN(3) {
	case 0:
		b := []byte("fail")
		if err := s.SendMsg(&b); err != nil {
			return err
		}
		if _, err := s.hear(); status.Code(err) != codes.FailedPrecondition {
			return err
		}
	case 1:
		if err := s.CloseSend(); err != nil {
			return err
		}
		if _, err := s.hear(); !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}
