package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

const (
	frameHeader   = 9
	messageHeader = 5 // of gRPC: the compression flag and the length
	// writeTimeout is how long a peer may accept no bytes.
	writeTimeout = 30 * time.Second
	// maxOut bounds the bytes that wait for the peer to accept earlier ones.
	maxOut = 64 << 20
	// maxSpare is the size of the largest buffer that is kept for later writes.
	maxSpare = 256 << 10
)

// A Message appends itself to a buffer.
type Message interface {
	Append(b []byte) []byte
}

// Encoded is a message that is sent as it is.
type Encoded []byte

// Append implements [Message].
func (e Encoded) Append(b []byte) []byte { return append(b, e...) }

// appendFrame appends the header of a frame.
func appendFrame(b []byte, size int, t http2.FrameType, f http2.Flags, stream uint32) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(t), byte(f))
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendWindowUpdate(b []byte, stream uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameWindowUpdate, 0, stream), uint32(n))
}

func appendReset(b []byte, stream uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameRSTStream, 0, stream), uint32(code))
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode, reason string) []byte {
	b = appendFrame(b, 8+len(reason), http2.FrameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	return append(binary.BigEndian.AppendUint32(b, uint32(code)), reason...)
}

// send queues a message, as far as the peer's windows allow. The caller holds the lock.
func (c *conn) send(s *Stream, m Message) {
	s.begin()
	start := len(c.out)
	c.out = append(c.out, make([]byte, frameHeader+messageHeader)...)
	c.out = m.Append(c.out)
	size := len(c.out) - start - frameHeader
	binary.BigEndian.PutUint32(c.out[start+frameHeader+1:], uint32(size-messageHeader))
	if len(s.pending) == 0 && size <= c.maxFrame && int64(size) <= min(c.window, s.window) {
		appendFrame(c.out[:start], size, http2.FrameData, 0, s.id)
		c.window -= int64(size)
		s.window -= int64(size)
		return
	}
	if len(s.pending) == 0 {
		c.starved = append(c.starved, s)
	}
	s.pending = append(s.pending, c.out[start+frameHeader:]...)
	c.out = c.out[:start]
	c.pump()
}

// begin appends the headers of the answer, once.
func (s *Stream) begin() {
	if !s.begun {
		s.begun = true
		c := s.conn
		start := len(c.out)
		c.out = append(c.out, make([]byte, frameHeader)...)
		c.appendHeaders("")
		appendFrame(c.out[:start], len(c.out)-start-frameHeader, http2.FrameHeaders, http2.FlagHeadersEndHeaders, s.id)
	}
}

// appendHeaders appends responseHeaders, or the same with another status.
func (c *conn) appendHeaders(httpStatus string) {
	c.appendShrunk()
	if httpStatus == "" {
		c.out = append(c.out, responseHeaders...)
		return
	}
	c.out = append(c.out, 0x08, byte(len(httpStatus))) // :status, without indexing
	c.out = append(append(c.out, httpStatus...), responseHeaders[1:]...)
}

// appendShrunk begins the header block after the peer has made its table smaller. The block must acknowledge that
// (RFC 7541, section 4.2); it says that the table is of no size.
func (c *conn) appendShrunk() {
	if c.shrunk {
		c.shrunk = false
		c.out = append(c.out, 0x20)
	}
}

// pump appends pending bytes of streams, one frame of each stream at a time, as far as the windows allow. The caller
// holds the lock.
func (c *conn) pump() {
	for moved := true; moved; {
		moved = false
		left := c.starved[:0]
		for _, s := range c.starved {
			n := int(min(int64(len(s.pending)), int64(c.maxFrame), s.window, c.window))
			if n > 0 {
				moved = true
				c.out = appendFrame(c.out, n, http2.FrameData, 0, s.id)
				c.out = append(c.out, s.pending[:n]...)
				s.pending = s.pending[n:]
				s.window -= int64(n)
				c.window -= int64(n)
			}
			if len(s.pending) > 0 {
				left = append(left, s)
				continue
			}
			s.pending = nil
			if s.closed {
				c.end(s)
			} else {
				c.drained = append(c.drained, s)
			}
		}
		clear(c.starved[len(left):])
		c.starved = left
	}
}

// end appends a stream's status, and forgets the stream. The caller holds the lock.
func (c *conn) end(s *Stream) {
	start := len(c.out)
	c.out = append(c.out, make([]byte, frameHeader)...)
	if !s.begun {
		s.begun = true
		c.appendHeaders(s.httpStatus)
	} else {
		c.appendShrunk()
	}
	c.out = appendTrailers(c.out, s.status)
	appendFrame(c.out[:start], len(c.out)-start-frameHeader, http2.FrameHeaders,
		http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, s.id)
	if !s.clientClosed {
		c.out = appendReset(c.out, s.id, http2.ErrCodeNo)
	}
	c.forget(s)
}

// forget ends a stream for good. The caller holds the lock.
func (c *conn) forget(s *Stream) {
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	c.drained = without(c.drained, s)
	c.server.open.Add(-1)
	c.hold(s, 0)
	s.leave(context.Canceled)
}

// without removes a stream from a list. A list that kept it would keep its handler, and with it a request's body.
func without(list []*Stream, s *Stream) []*Stream {
	if i := slices.Index(list, s); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// flush writes the queued bytes. If another goroutine is writing, or the reader will write soon, that one writes them.
// The caller holds the lock, and flush releases it while it writes.
func (c *conn) flush() {
	if c.writing && len(c.out) > maxOut && c.dead == nil {
		c.dead = errors.New("the peer does not take what is written to it")
		_ = c.net.Close()
	}
	if c.writing || c.batch {
		return
	}
	c.writing = true
	for len(c.out) > 0 && c.dead == nil {
		out := c.out
		c.out, c.spare = c.spare[:0], nil
		now := time.Now()
		extend := now.Sub(c.extended) > time.Second
		if extend {
			c.extended = now
		}
		c.mu.Unlock()
		if extend {
			_ = c.net.SetWriteDeadline(now.Add(writeTimeout))
		}
		_, err := c.net.Write(out)
		c.mu.Lock()
		if cap(out) <= maxSpare {
			c.spare = out
		}
		if err != nil {
			c.dead = err
			_ = c.net.Close() // this ends the reader
		}
	}
	c.writing = false
	if c.draining == refusing && len(c.streams) == 0 {
		_ = c.net.Close()
	}
}
