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
	// streamWindow is the flow-control window of a stream. Bytes are acknowledged when the handler has taken them.
	streamWindow = 1 << 20
	// ackBytes is the number of taken bytes after which they are acknowledged.
	ackBytes = streamWindow / 8
	// maxPrealloc is the size of the largest message whose buffer is allocated before it is complete.
	maxPrealloc = 256 << 10
)

// A Stream is a call of a client. It is also the context of the call. The context ends when the client leaves, the
// connection is lost or the client's deadline passes, and after the handler's Close.
type Stream struct {
	conn     *conn
	id       uint32
	handler  Handler
	deadline time.Time
	expiry   *time.Timer
	// httpStatus is the status of an answer to what is not gRPC.
	httpStatus string

	// The fields below belong to the owner: the goroutine that has set busy.
	partial     []byte // an incomplete message, with its header
	consumed    int    // bytes taken since the last acknowledgement
	detached    bool   // the owner is a goroutine of the stream
	detachments int    // how often that was so
	closing     bool   // Close was called
	status      error

	// The fields below are guarded by the connection's lock.
	busy         bool
	queue        []byte // bytes that arrived while the stream was busy
	holds        int    // bytes in queue, partial and pending, as they were last counted
	received     int    // bytes that are not acknowledged
	padding      int    // bytes of these that are no data
	clientClosed bool   // the client has closed its side
	failed       error  // the error of Fail
	gone         bool   // nothing can be sent any more
	begun        bool   // headers were sent
	closed       bool   // the handler has ended; the status is sent last
	window       int64  // the peer's
	pending      []byte // bytes beyond the peer's windows
	err          error  // the context's
	done         chan struct{}
	arrived      func()
}

var errEnded = status.Error(codes.Canceled, "the stream has ended")

// Send sends a message. Any goroutine may call it, but not after Close.
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

// Go calls f in a goroutine of the stream, which may wait. Message and Close call it as their last step. Later
// messages on the stream wait. An error ends the stream, with its gRPC status.
func (s *Stream) Go(f func() error) error {
	if s.detached {
		return f()
	}
	s.detachments++
	s.detached = true
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

// Silent returns a context that ends with the stream, or with the client's next message. It is called inside Go.
func (s *Stream) Silent() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background()) // as a child of s, it would call s.Done under the lock
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if len(s.queue) > 0 || s.clientClosed || s.gone {
		cancel()
	}
	s.arrived = cancel
	return ctx, cancel
}

// wake ends the context of Silent. The caller holds the lock.
func (s *Stream) wake() {
	if s.arrived != nil {
		s.arrived()
		s.arrived = nil
	}
}

// take delivers bytes to the handler. If Message continues in a goroutine, which then owns the stream, take returns
// the rest of the bytes and true.
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
		before := s.detachments
		if !s.detached {
			s.conn.handled++ // by the reader
		}
		if err := s.call(message[messageHeader:], owned); err != nil {
			return nil, false, err
		}
		if s.detachments != before {
			return d, true, nil
		}
	}
	return nil, false, nil
}

func (s *Stream) call(message []byte, owned bool) (err error) {
	return s.conn.server.protect(func() error { return s.handler.Message(message, owned) })
}

// length returns the length of a message with its header.
func (s *Stream) length(header []byte) (int, error) {
	if header[0] != 0 {
		return 0, status.Error(codes.Internal, "a compressed message on a stream without compression")
	}
	n := int(binary.BigEndian.Uint32(header[1:]))
	if n > s.conn.server.options.MaxMessage {
		return 0, status.Errorf(codes.ResourceExhausted, "a message of %d bytes is larger than %d", n,
			s.conn.server.options.MaxMessage)
	}
	return messageHeader + n, nil
}

// gather adds bytes to the partial message. It returns the message if it is complete, and the bytes after it.
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
	if whole > cap(s.partial) && (whole <= maxPrealloc || len(s.partial)+len(d) > cap(s.partial)) {
		room := whole
		if whole > maxPrealloc {
			room = min(whole, max(maxPrealloc, 2*(len(s.partial)+len(d))))
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

// deliver passes bytes to the handler, or queues them if the handler is busy. The reader calls it.
func (s *Stream) deliver(d []byte, last bool) {
	c := s.conn
	c.mu.Lock()
	if s.busy || len(s.pending) > 0 || s.gone {
		if !s.gone {
			s.queue = append(s.queue, d...)
			s.clientClosed = last
			s.wake()
			c.hold(s, s.holds+len(d))
		}
		exceeded := c.exceeds(s)
		c.mu.Unlock()
		if exceeded {
			c.reset(s.id, http2.ErrCodeEnhanceYourCalm)
		}
		return
	}
	s.busy = true
	c.mu.Unlock()
	rest, went, err := s.take(d)
	c.mu.Lock()
	s.queue = append(s.queue, rest...)
	s.clientClosed = last
	owner := s.owns(went)
	c.mu.Unlock()
	if owner {
		s.work(err)
	}
}

// owns reports whether the caller still owns the stream after a message, or owns it again. The caller holds the lock.
func (s *Stream) owns(went bool) bool {
	if !went {
		return true
	}
	if s.busy {
		if len(s.queue) > 0 || s.clientClosed {
			s.wake()
		}
		return false
	}
	s.busy = true
	return true
}

// work delivers queued bytes, and then releases or ends the stream. The owner calls it.
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
		if len(s.pending) == 0 && s.clientClosed {
			c.mu.Unlock()
			if len(s.partial) > 0 {
				err = status.Error(codes.Internal, "the stream ends within a message")
			}
			break
		}
		if exceeded := c.account(s); exceeded {
			c.mu.Unlock()
			c.reset(s.id, http2.ErrCodeEnhanceYourCalm)
			continue
		}
		s.busy, s.detached = false, false
		c.flush()
		c.mu.Unlock()
		return
	}
	s.finish(err)
}

// next delivers the queue. The caller holds the lock, and next releases it.
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

// errHandedOver means that another goroutine owns the stream now. It is not reported.
var errHandedOver = errors.New("handed over")

// account counts the held bytes of the stream, and acknowledges taken bytes. It reports whether the connection holds
// more than it may. The caller holds the lock.
func (c *conn) account(s *Stream) (exceeded bool) {
	holds := cap(s.partial) + len(s.queue) + len(s.pending)
	if c.hold(s, holds); c.exceeds(s) {
		return true
	}
	if taken := s.consumed + s.padding; taken >= ackBytes && !s.clientClosed {
		c.out = appendWindowUpdate(c.out, s.id, taken)
		s.received -= taken
		s.consumed, s.padding = 0, 0
	}
	return false
}

// hold counts the held bytes of a stream. The caller holds the lock.
func (c *conn) hold(s *Stream, bytes int) {
	c.server.held.Add(int64(bytes - s.holds))
	s.holds = bytes
}

// exceeds reports whether the server holds more than it may, and the stream more than its share. A stream that holds
// little is served beside those that hold much.
func (c *conn) exceeds(s *Stream) bool {
	most := int64(c.server.options.MaxHeld)
	return c.server.held.Load() > most && int64(s.holds) > most/max(1, c.server.open.Load())
}

// finish closes the handler and ends the stream. The owner calls it.
func (s *Stream) finish(err error) {
	s.status, s.closing = err, true
	before := s.detachments
	closed := s.conn.server.protect(func() error {
		if s.handler == nil {
			return nil
		}
		return s.handler.Close()
	})
	if s.detachments == before {
		s.complete(closed)
	}
}

// complete sends the status after the pending bytes.
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

// Fail ends the stream with a gRPC status after the handler's current work. Any goroutine may call it.
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

// lose ends the stream without a status, because the client has left or cannot be reached.
func (s *Stream) lose(err error) {
	c := s.conn
	c.mu.Lock()
	if s.gone {
		c.mu.Unlock()
		return
	}
	if len(s.pending) > 0 {
		c.starved = without(c.starved, s)
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

// leave ends the context. The caller holds the lock.
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

// Err returns the reason why the stream has ended, or nil.
func (s *Stream) Err() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.err
}

// Value returns nil: the context has no values.
func (s *Stream) Value(any) any { return nil }
