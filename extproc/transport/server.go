package transport

import (
	"cmp"
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Handler handles the messages of one stream. Its methods are called one at a time, and must not wait. Work that has
// to wait uses [Stream.Go].
type Handler interface {
	// Message handles a message. If owned, it may be kept; otherwise it is valid until Message returns. An error ends the
	// stream, with its gRPC status.
	Message(b []byte, owned bool) error
	// Close is called once: when the client has closed its side or has left, or when Message has returned an error. The
	// stream's status is sent afterwards. Its error becomes the status, unless there was an earlier error.
	Close() error
}

// A Service returns the handler of a new stream, or an error whose gRPC status ends the stream. The headers are valid
// until it returns.
type Service func(*Stream, Headers) (Handler, error)

// Options are the dependencies of a Server.
type Options struct {
	Service Service
	// MaxMessage bounds a message, in bytes.
	MaxMessage int
	// MaxHeld bounds the bytes of messages that all streams hold: those that have not come whole, those that wait for
	// their handler, and those that the client does not take. Beyond it, streams with more than an equal share are reset.
	// 0 means 1 GB.
	MaxHeld int
	// Panicked is called with the panic of a handler. The stream ends with the status Internal.
	Panicked func(reason any, stack []byte)
}

// A Server serves gRPC on connections.
type Server struct {
	options Options
	held    atomic.Int64 // bytes of messages, bounded by MaxHeld
	open    atomic.Int64 // streams

	mu        sync.Mutex // guards the fields below
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	stopping  bool
	running   sync.WaitGroup // connections, and handlers that wait
}

// ErrStopped is the error of Serve after Shutdown or Stop.
var ErrStopped = errors.New("the server is stopped")

// New returns a server that does not serve yet.
func New(o Options) *Server {
	o.MaxHeld = cmp.Or(o.MaxHeld, 1<<30)
	return &Server{options: o, listeners: map[net.Listener]bool{}, conns: map[*conn]bool{}}
}

// Serve accepts connections until the listener fails, or Shutdown or Stop is called.
func (s *Server) Serve(l net.Listener) error {
	if !s.listens(l) {
		_ = l.Close()
		return ErrStopped
	}
	for {
		c, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.stopping {
				return ErrStopped
			}
			return err
		}
		s.serve(c)
	}
}

func (s *Server) listens(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = true
	return !s.stopping
}

func (s *Server) serve(c net.Conn) {
	served := newConn(s, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		_ = c.Close()
		return
	}
	s.conns[served] = true
	s.running.Go(func() {
		served.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, served)
	})
}

// Shutdown stops accepting connections and streams, and returns when every stream has ended. If ctx ends first, it
// closes the connections.
func (s *Server) Shutdown(ctx context.Context) {
	for _, c := range s.stop() {
		c.goAway()
	}
	cut := context.AfterFunc(ctx, s.Stop)
	defer cut()
	s.running.Wait()
}

// Stop stops accepting and closes the connections.
func (s *Server) Stop() {
	for _, c := range s.stop() {
		_ = c.net.Close()
	}
}

// stop closes the listeners, and returns the open connections.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for l := range s.listeners {
		_ = l.Close()
	}
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	return open
}

// protect calls f and converts a panic to an error.
func (s *Server) protect(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.options.Panicked(r, debug.Stack())
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return f()
}
