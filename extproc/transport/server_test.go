package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/extproc/transport"
)

func TestMessagesOfEverySizeComeAsTheyAre(t *testing.T) {
	w := serve(t)
	for name, conn := range map[string]*grpc.ClientConn{
		"wide windows":   w.dial(grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(16<<20)),
		"narrow windows": w.dial(grpc.WithStaticStreamWindowSize(65535), grpc.WithStaticConnWindowSize(65535)),
	} {
		t.Run(name, func(t *testing.T) {
			s := w.open(t.Context(), conn, "/echo/Echo")
			for _, n := range []int{0, 1, 5, 100, 16378, 16379, 16380, 20_000, 65_531, 256 << 10, 1<<20 + 1, 5 << 20} {
				sent := strings.Repeat("x", n)
				s.say(t, sent)
				got, err := s.hear()
				require.NoError(t, err)
				require.Equal(t, sent, got)
			}
			require.NoError(t, s.CloseSend())
			_, err := s.hear()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

func TestManyStreamsShareAConnection(t *testing.T) {
	w := serve(t)
	conn := w.dial(grpc.WithStaticConnWindowSize(1 << 20))
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-role", fmt.Sprint(i))
			s := w.open(ctx, conn, "/echo/Echo")
			for n := range 20 {
				sent := strings.Repeat(fmt.Sprintf("%d/%d ", i, n), n*n*10)
				s.say(t, "m"+sent)
				if got, err := s.hear(); err != nil || got != "m"+sent {
					t.Errorf("stream %d: %q %v", i, got, err)
					return
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Error(err)
			}
			if _, err := s.hear(); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Len(t, w.header, 200)
	require.Contains(t, w.header, "199")
}

func TestAStreamEndsWithTheStatusOfItsError(t *testing.T) {
	w := serve(t)
	conn := w.dial()
	for name, c := range map[string]struct {
		path, say string
		code      codes.Code
		message   string
	}{
		"an unknown method": {"/echo/Other", "x", codes.Unimplemented, `there is no "/echo/Other": ü%`},
		"an error": {"/echo/Echo", "fail: for %41 a \n reason", codes.FailedPrecondition,
			"fail: for %41 a \n reason"},
		"a panic": {"/echo/Echo", "panic now", codes.Internal, "panic"},
		"too large": {"/echo/Echo", strings.Repeat("x", 8<<20+1), codes.ResourceExhausted,
			"a message of 8388609 bytes is larger than 8388608"},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.open(t.Context(), conn, c.path)
			b := []byte(c.say)
			_ = s.SendMsg(&b) // a stream may have ended already
			_ = s.CloseSend()
			var err error
			for err == nil {
				_, err = s.hear()
			}
			require.Equal(t, c.code, status.Code(err), "%v", err)
			require.Equal(t, c.message, status.Convert(err).Message())
		})
	}
	require.Equal(t, "panic now", <-w.panics)
}

func TestWhatWaitsHoldsUpItsOwnStreamAndNoOther(t *testing.T) {
	w := serve(t)
	conn := w.dial()
	slow, quick := w.open(t.Context(), conn, "/echo/Echo"), w.open(t.Context(), conn, "/echo/Echo")
	slow.say(t, "wait 1")
	for i := range 100 {
		slow.say(t, fmt.Sprint("then ", i))
	}
	slow.say(t, "wait 2")
	require.NoError(t, slow.CloseSend())
	for range 100 {
		quick.say(t, "hello")
		got, err := quick.hear()
		require.NoError(t, err)
		require.Equal(t, "hello", got)
	}
	close(w.release)
	want := []string{"wait 1"}
	for i := range 100 {
		want = append(want, fmt.Sprint("then ", i))
	}
	for _, want := range append(want, "wait 2") {
		got, err := slow.hear()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := slow.hear()
	require.ErrorIs(t, err, io.EOF)
}

func TestSilenceEndsWithWhateverComes(t *testing.T) {
	w := serve(t)
	conn := w.dial()
	for name, then := range map[string]func(s call, leave func()) bool{
		"a message":         func(s call, _ func()) bool { s.say(t, "more"); return true },
		"the client's end":  func(s call, _ func()) bool { require.NoError(t, s.CloseSend()); return true },
		"the client leaves": func(_ call, leave func()) bool { leave(); return false },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			s := w.open(ctx, conn, "/echo/Echo")
			s.say(t, "silent")
			if then(s, leave) {
				got, err := s.hear()
				require.NoError(t, err)
				require.Equal(t, "heard", got)
			}
			leave()
			<-w.closed
		})
	}
}

func TestAHandlerIsClosedWhateverEndsItsStream(t *testing.T) {
	w := serve(t)
	for name, end := range map[string]func(s call, conn *grpc.ClientConn, leave func()){
		"the client leaves":      func(_ call, _ *grpc.ClientConn, leave func()) { leave() },
		"the connection is lost": func(_ call, conn *grpc.ClientConn, _ func()) { _ = conn.Close() },
		"the handler waits, and the client leaves": func(s call, _ *grpc.ClientConn, leave func()) {
			s.say(t, "wait")
			leave()
		},
		"a deadline": func(call, *grpc.ClientConn, func()) {},
	} {
		t.Run(name, func(t *testing.T) {
			conn := w.dial()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if name == "a deadline" {
				ctx, leave = context.WithTimeout(t.Context(), time.Second) // the stream opens before
				defer leave()
			}
			s := w.open(ctx, conn, "/echo/Echo")
			s.say(t, "x")
			_, err := s.hear()
			require.NoError(t, err)
			stream := <-w.opened
			end(s, conn, leave)
			select {
			case <-stream.Done():
			case <-time.After(soon):
				require.Fail(t, "the context goes on")
			}
			require.Error(t, <-w.closed)
			require.Error(t, stream.Send(text("more")))
			require.Error(t, stream.Err())
		})
	}
}

func TestFailEndsAStreamFromOutside(t *testing.T) {
	w := serve(t)
	s := w.open(t.Context(), w.dial(), "/echo/Echo")
	s.say(t, "x")
	_, err := s.hear()
	require.NoError(t, err)
	(<-w.opened).Fail(status.Error(codes.Unavailable, "over"))
	_, err = s.hear()
	require.Equal(t, codes.Unavailable, status.Code(err))
}

func TestShutdownLetsStreamsEndAndTakesNoMore(t *testing.T) {
	w := serve(t)
	conn := w.dial()
	s := w.open(t.Context(), conn, "/echo/Echo")
	s.say(t, "wait")
	ended := make(chan struct{})
	go func() {
		w.server.Shutdown(t.Context())
		close(ended)
	}()
	require.ErrorIs(t, <-w.served, transport.ErrStopped)
	w.served <- transport.ErrStopped
	select {
	case <-ended:
		require.Fail(t, "a stream is open")
	default:
	}
	close(w.release)
	got, err := s.hear()
	require.NoError(t, err)
	require.Equal(t, "wait", got)
	require.NoError(t, s.CloseSend())
	_, err = s.hear()
	require.ErrorIs(t, err, io.EOF)
	<-ended
	other, err := conn.NewStream(t.Context(), &streams, "/echo/Echo")
	if err == nil {
		_, err = call{other}.hear()
	}
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
}

func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	w := serve(t)
	s := w.open(t.Context(), w.dial(), "/echo/Echo")
	s.say(t, "x")
	_, err := s.hear()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.server.Shutdown(ctx)
	_, err = s.hear()
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.Error(t, <-w.closed)
}

// TestMessagesThatAreKeptStayAsTheyAre holds the rule of ownership: one that is owned is not written to again.
func TestMessagesThatAreKeptStayAsTheyAre(t *testing.T) {
	w := serve(t)
	s := w.open(t.Context(), w.dial(), "/echo/Echo")
	var want []string
	for i, n := range []int{10, 20_000, 300_000, 30, 17_000, 1 << 20} {
		m := "keep" + strings.Repeat(fmt.Sprint(i), n)
		want = append(want, m)
		s.say(t, m)
	}
	s.say(t, "give")
	for _, want := range want {
		got, err := s.hear()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
