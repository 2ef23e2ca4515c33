package transport

import (
	"context"
	"errors"
	"net"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Handler takes what comes on one stream. Its methods are called one at a time, and must not wait: what has to wait
// goes to [Stream.Go].
type Handler interface {
	// Message takes a message. It may be kept if owned; otherwise it is valid until Message returns. An error ends the
	// stream, with its gRPC status.
	Message(b []byte, owned bool) error
	// Close is called once, when the client has said all, has left, or when Message has returned an error. The stream's
	// status is sent when it has returned: its error, where there was none before.
	Close() error
}

// A Service returns the handler of a stream that a client opens, or an error with the gRPC status that the stream ends
// with. The headers are valid until it returns.
type Service func(*Stream, Headers) (Handler, error)

// Options are what a Server needs.
type Options struct {
	Service Service
	// MaxMessage bounds a message, in bytes.
	MaxMessage int
	// Panicked is told what a handler has panicked with. Its stream ends with the status Internal.
	Panicked func(reason any, stack []byte)
}

// A Server serves gRPC on connections.
type Server struct {
	options Options

	mu        sync.Mutex // guards what follows
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	stopping  bool
	running   sync.WaitGroup // connections, and handlers that wait
}

// ErrStopped is returned by Serve after Shutdown or Stop.
var ErrStopped = errors.New("the server is stopped")

// New returns a server that is not serving yet.
func New(o Options) *Server {
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

// Shutdown stops accepting, tells clients to open no more streams, and returns when every stream has ended. When ctx
// ends, it closes the connections first.
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

// stop closes the listeners, and returns the connections that are open.
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

// protect calls f. A panic is an error.
func (s *Server) protect(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.options.Panicked(r, debug.Stack())
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return f()
}
