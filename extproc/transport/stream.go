package transport

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// streamWindow is how much a client may send on a stream beyond what its handler has taken.
	streamWindow = 1 << 20
	// credit is how much the handler takes before the client is told.
	credit = streamWindow / 8
	// atOnce is the size of the largest message for which room is made before it has come.
	atOnce = 256 << 10
)

// A Stream is a call of a client's. It is the context of the call too: it ends when the client leaves, when the
// connection is lost, when the deadline passes that the client has set, and after the handler's Close.
type Stream struct {
	conn     *conn
	id       uint32
	handler  Handler
	deadline time.Time
	expiry   *time.Timer

	// What follows belongs to the owner: the goroutine that has made busy true.
	partial  []byte // a message that has not come whole, with its header
	consumed int    // taken since the client was last told
	apart    bool   // the owner is a goroutine of the stream's own
	goes     int    // how often it became that
	closing  bool   // Close was called
	status   error

	// What follows is guarded by the connection's lock.
	busy     bool
	queue    []byte // has come while the stream was busy
	holds    int    // bytes in the queue and in partial
	received int    // beyond what the client was told is taken
	saidAll  bool   // the client has ended its side
	failed   error  // what Fail was given
	gone     bool   // nothing can be sent any more
	begun    bool   // headers went out
	closed   bool   // the handler has ended; the status is the last to go out
	window   int64  // the peer's
	pending  []byte // beyond the peer's windows
	err      error  // the context's
	done     chan struct{}
	arrived  func()
}

var errEnded = status.Error(codes.Canceled, "the stream has ended")

// Send sends a message. It may be called by any goroutine, but not after Close.
func (s *Stream) Send(m Message) error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.gone || s.closed || c.dead != nil {
		return errEnded
	}
	c.send(s, m)
	c.flush()
	return nil
}

// Go calls f on a goroutine of the stream's own, where it may wait. It is called by Message and Close, as the last
// they do. What comes on the stream meanwhile waits. An error ends the stream, with its gRPC status.
func (s *Stream) Go(f func() error) error {
	if s.apart {
		return f()
	}
	s.goes++
	s.apart = true
	s.conn.server.running.Go(func() {
		err := s.conn.server.protect(f)
		if s.closing {
			s.complete(err)
			return
		}
		s.work(err)
	})
	return nil
}

// Silent returns a context that ends with the stream, or when the client says anything more. It is called within Go.
func (s *Stream) Silent() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background()) // of s, it would ask s for Done under the lock
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.queue) > 0 || s.saidAll || s.gone {
		cancel()
	}
	s.arrived = cancel
	return ctx, cancel
}

// wake ends the context of Silent. It is called with the lock held.
func (s *Stream) wake() {
	if s.arrived != nil {
		s.arrived()
		s.arrived = nil
	}
}

// take delivers what has come to the handler. It reports what it has not delivered where Message has gone to a
// goroutine of its own, which owns the stream now.
func (s *Stream) take(d []byte) (rest []byte, went bool, err error) {
	s.consumed += len(d)
	for len(d) > 0 {
		var message []byte
		owned := len(s.partial) > 0
		if !owned && len(d) >= messageHeader {
			n, err := s.length(d)
			if err != nil {
				return nil, false, err
			}
			if len(d) >= n {
				message, d = d[:n], d[n:]
			}
		}
		if message == nil {
			owned = true
			if message, d, err = s.gather(d); message == nil {
				return nil, false, err
			}
		}
		before := s.goes
		if !s.apart {
			s.conn.handled++ // by the reader
		}
		if err := s.call(message[messageHeader:], owned); err != nil {
			return nil, false, err
		}
		if s.goes != before {
			return d, true, nil
		}
	}
	return nil, false, nil
}

func (s *Stream) call(message []byte, owned bool) (err error) {
	return s.conn.server.protect(func() error { return s.handler.Message(message, owned) })
}

// length returns how long a message is with its header.
func (s *Stream) length(header []byte) (int, error) {
	if header[0] != 0 {
		return 0, status.Error(codes.Unimplemented, "messages cannot be compressed")
	}
	n := int(binary.BigEndian.Uint32(header[1:]))
	if n > s.conn.server.options.MaxMessage {
		return 0, status.Errorf(codes.ResourceExhausted, "a message of %d bytes is larger than %d", n,
			s.conn.server.options.MaxMessage)
	}
	return messageHeader + n, nil
}

// gather adds to the partial message, and returns it once it is whole, and what follows it.
func (s *Stream) gather(d []byte) (message, rest []byte, err error) {
	if n := min(len(d), messageHeader-len(s.partial)); n > 0 {
		s.partial, d = append(s.partial, d[:n]...), d[n:]
	}
	if len(s.partial) < messageHeader {
		return nil, nil, nil
	}
	whole, err := s.length(s.partial)
	if err != nil {
		return nil, nil, err
	}
	if whole > cap(s.partial) && (whole <= atOnce || len(s.partial)+len(d) > cap(s.partial)) {
		room := whole
		if whole > atOnce {
			room = min(whole, max(atOnce, 2*(len(s.partial)+len(d))))
		}
		s.partial = append(make([]byte, 0, room), s.partial...)
	}
	n := min(len(d), whole-len(s.partial))
	s.partial, d = append(s.partial, d[:n]...), d[n:]
	if len(s.partial) < whole {
		return nil, nil, nil
	}
	message, s.partial = s.partial, nil
	return message, d, nil
}

// deliver gives the handler what has come, unless it is busy with what came before. It is called by the reader.
func (s *Stream) deliver(d []byte, last bool) {
	c := s.conn
	c.mu.Lock()
	if s.busy || len(s.pending) > 0 || s.gone {
		if !s.gone {
			s.queue = append(s.queue, d...)
			s.saidAll = last
			s.wake()
		}
		c.mu.Unlock()
		return
	}
	s.busy = true
	c.mu.Unlock()
	rest, went, err := s.take(d)
	c.mu.Lock()
	s.queue = append(s.queue, rest...)
	s.saidAll = last
	owner := s.owns(went)
	c.mu.Unlock()
	if owner {
		s.work(err)
	}
}

// owns reports whether the caller is still the owner after a message, or again. It is called with the lock held.
func (s *Stream) owns(went bool) bool {
	if !went {
		return true
	}
	if s.busy {
		if len(s.queue) > 0 || s.saidAll {
			s.wake()
		}
		return false
	}
	s.busy = true
	return true
}

// work delivers what has come meanwhile, and then gives the stream up or ends it. It is called by the owner.
func (s *Stream) work(err error) {
	c := s.conn
	for err == nil {
		c.mu.Lock()
		if s.gone || s.failed != nil {
			err = cmp.Or(s.failed, errEnded)
			c.mu.Unlock()
			break
		}
		if len(s.pending) == 0 && len(s.queue) > 0 {
			err = s.next()
			if errors.Is(err, errHandedOver) {
				return
			}
			continue
		}
		if len(s.pending) == 0 && s.saidAll {
			c.mu.Unlock()
			break
		}
		if err = c.account(s); err == nil {
			s.busy, s.apart = false, false
			c.flush()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
	s.finish(err)
}

// next delivers what is queued. It is called with the lock held, and gives it up.
func (s *Stream) next() error {
	c := s.conn
	queue := s.queue
	s.queue = nil
	c.mu.Unlock()
	rest, went, err := s.take(queue)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.queue = append(rest, s.queue...)
	if !s.owns(went) {
		return errHandedOver
	}
	return nil
}

// errHandedOver is not told to anyone: another goroutine owns the stream now.
var errHandedOver = errors.New("handed over")

// account counts what is held of the stream, and gives the client credit for what was taken. It is called with the
// lock held.
func (c *conn) account(s *Stream) error {
	holds := cap(s.partial) + len(s.queue)
	c.held += holds - s.holds
	s.holds = holds
	if c.held > maxHeld {
		return status.Errorf(codes.ResourceExhausted,
			"the messages that have not come whole on this connection have more than %d bytes", maxHeld)
	}
	if s.consumed >= credit && !s.saidAll {
		c.out = appendWindowUpdate(c.out, s.id, s.consumed)
		s.received -= s.consumed
		s.consumed = 0
	}
	return nil
}

// finish closes the handler and ends the stream. It is called by the owner.
func (s *Stream) finish(err error) {
	s.status, s.closing = err, true
	before := s.goes
	closed := s.conn.server.protect(func() error {
		if s.handler == nil {
			return nil
		}
		return s.handler.Close()
	})
	if s.goes == before {
		s.complete(closed)
	}
}

// complete sends the status, behind what the client has not taken yet.
func (s *Stream) complete(closed error) {
	c := s.conn
	s.status = cmp.Or(s.status, closed)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.closed = true
	switch {
	case s.gone:
		c.forget(s)
	case len(s.pending) == 0:
		c.end(s)
	}
	c.flush()
}

// Fail ends the stream with a gRPC status, once the handler has done what it does. It may be called by any goroutine.
func (s *Stream) Fail(err error) {
	c := s.conn
	c.mu.Lock()
	owner := !s.busy && !s.gone && !s.closed
	if owner {
		s.busy = true
	} else {
		s.failed = err
	}
	c.mu.Unlock()
	if owner {
		s.finish(err)
	}
}

// lose ends the stream without a word to the client: it has left, or cannot be reached.
func (s *Stream) lose(err error) {
	c := s.conn
	c.mu.Lock()
	if s.gone {
		c.mu.Unlock()
		return
	}
	s.gone, s.pending, s.queue = true, nil, nil
	s.leave(err)
	owner := !s.busy && !s.closed
	if owner {
		s.busy = true
	} else if s.closed {
		c.forget(s)
	}
	c.mu.Unlock()
	if owner {
		s.finish(errEnded)
	}
}

// expire ends a stream whose deadline has passed.
func (s *Stream) expire() {
	c := s.conn
	c.mu.Lock()
	if !s.gone && c.streams[s.id] == s {
		c.out = appendReset(c.out, s.id, http2.ErrCodeCancel)
		c.flush()
	}
	c.mu.Unlock()
	s.lose(context.DeadlineExceeded)
}

// leave ends the context. It is called with the lock held.
func (s *Stream) leave(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if s.done != nil {
		close(s.done)
	}
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.wake()
}

// Deadline returns the client's deadline.
func (s *Stream) Deadline() (time.Time, bool) { return s.deadline, !s.deadline.IsZero() }

// Done returns a channel that is closed when the stream has ended.
func (s *Stream) Done() <-chan struct{} {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.err != nil {
			close(s.done)
		}
	}
	return s.done
}

// Err returns why the stream has ended, or nil.
func (s *Stream) Err() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.err
}

// Value returns nil: the context holds no values.
func (s *Stream) Value(any) any { return nil }
