package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// connWindow is the flow-control window of a connection. Read bytes are acknowledged at once.
	connWindow = 16 << 20
	// maxStreams bounds the open streams of a connection.
	maxStreams = 1 << 20
	// maxFrame is the size of the largest frame that is read or sent.
	maxFrame   = 128 << 10
	readBuffer = 64 << 10
	// maxBatch is the number of messages that are handled before the answers are written.
	maxBatch = 16
	// greetTimeout bounds the time of the HTTP/2 preface.
	greetTimeout = 20 * time.Second
)

// States of a connection that will end.
const (
	open       = iota
	goAwaySent // GOAWAY was sent, but may not have been read
	refusing   // new streams are refused
)

// goAwayPing is the ping after the first GOAWAY. Its answer means that the client has read the GOAWAY.
var goAwayPing = [8]byte{'g', 'o', 'o', 'd', 'b', 'y', 'e', '!'}

// A conn is one connection. One goroutine, the reader, reads it to its end.
type conn struct {
	server *Server
	net    net.Conn

	// The fields below belong to the reader.
	reader  *bufio.Reader
	frames  *http2.Framer
	headers *block
	unacked int // bytes read since the last acknowledgement
	handled int // messages since the last flush

	mu       sync.Mutex // guards the fields below
	out      []byte     // bytes to write
	spare    []byte     // the buffer for later bytes
	batch    bool       // the reader continues and writes later
	writing  bool       // a goroutine writes
	dead     error      // the error after which nothing can be written
	extended time.Time  // when the write deadline was last extended
	window   int64      // the peer's window for the connection
	initial  int64      // the peer's window for a new stream
	maxFrame int        // the peer's
	table    uint32     // the peer's table of headers; nothing of it is used
	shrunk   bool       // the next header block must say so
	streams  map[uint32]*Stream
	newest   uint32    // the client's highest id
	starved  []*Stream // streams with more bytes than the peer's windows allow: those with pending ones
	drained  []*Stream // streams whose handlers can continue
	draining int
}

func newConn(s *Server, c net.Conn) *conn {
	var hello bytes.Buffer
	writer := http2.NewFramer(&hello, nil)
	_ = writer.WriteSettings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: maxStreams},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: maxHeaders},
	)
	_ = writer.WriteWindowUpdate(0, connWindow-65535)
	return &conn{
		server: s, net: c, headers: newBlock(), streams: map[uint32]*Stream{},
		out: hello.Bytes(), window: 65535, initial: 65535, maxFrame: 16384,
		table: 4096,
	}
}

// serve reads the connection to its end.
func (c *conn) serve() {
	err := c.server.protect(func() error {
		err := c.greet()
		for err == nil {
			err = c.step()
		}
		return err
	})
	var broken http2.ConnectionError
	c.mu.Lock()
	c.batch = false
	if errors.As(err, &broken) && c.dead == nil {
		c.out = appendGoAway(c.out, c.newest, http2.ErrCode(broken), err.Error())
	}
	c.flush()
	if c.dead == nil {
		c.dead = err
	}
	left := make([]*Stream, 0, len(c.streams))
	for _, s := range c.streams {
		left = append(left, s)
	}
	c.mu.Unlock()
	_ = c.net.Close()
	for _, s := range left {
		s.lose(context.Canceled)
	}
}

// greet reads the client's preface, and sends the settings.
func (c *conn) greet() error {
	_ = c.net.SetReadDeadline(time.Now().Add(greetTimeout))
	c.reader = bufio.NewReaderSize(c.net, readBuffer)
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c.reader, preface[:]); err != nil {
		return err
	}
	if string(preface[:]) != http2.ClientPreface {
		return errors.New("the client does not speak HTTP/2")
	}
	c.frames = http2.NewFramer(io.Discard, c.reader)
	c.frames.SetReuseFrames()
	c.frames.SetMaxReadFrameSize(maxFrame)
	f, err := c.frames.ReadFrame()
	if err != nil {
		return c.judge(err)
	}
	first, ok := f.(*http2.SettingsFrame)
	if !ok || first.IsAck() {
		return violation(http2.ErrCodeProtocol, "the first frame is not SETTINGS")
	}
	_ = c.net.SetReadDeadline(time.Time{})
	return c.settings(first)
}

// A violation of the protocol ends the connection with a code and a reason.
func violation(code http2.ErrCode, format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{http2.ConnectionError(code)}, args...)...)
}

// step reads and handles a frame. It writes pending bytes before it would have to wait.
func (c *conn) step() error {
	if !c.hasFrame() || c.handled >= maxBatch {
		c.handled = 0
		c.mu.Lock()
		c.batch = false
		c.flush()
		c.mu.Unlock()
	}
	f, err := c.frames.ReadFrame()
	if err != nil {
		return c.judge(err)
	}
	c.mu.Lock()
	c.batch = true
	c.mu.Unlock()
	return c.take(f)
}

// hasFrame reports whether the next frame is in the buffer already.
func (c *conn) hasFrame() bool {
	if c.reader.Buffered() < frameHeader {
		return false
	}
	h, _ := c.reader.Peek(frameHeader)
	return c.reader.Buffered() >= frameHeader+int(h[0])<<16+int(h[1])<<8+int(h[2])
}

// judge returns the error that ends the connection, or nil for an error that ends only a stream.
func (c *conn) judge(err error) error {
	var of http2.StreamError
	switch {
	case errors.As(err, &of):
		if _, idle := c.known(of.StreamID); idle != nil {
			return violation(of.Code, "%v", idle) // also of a header block, without which the next cannot be decoded
		}
		c.reset(of.StreamID, of.Code)
		return nil
	case errors.Is(err, http2.ErrFrameTooLarge):
		return violation(http2.ErrCodeFrameSize, "a frame of more than %d bytes", maxFrame)
	}
	return err
}

func (c *conn) take(f http2.Frame) error {
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.HeadersFrame:
		if id%2 == 0 || f.HasPriority() && f.Priority.StreamDep == id {
			return violation(http2.ErrCodeProtocol, "HEADERS of stream %d", id)
		}
		c.headers.begin(id, f.StreamEnded())
		return c.block(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		if c.headers.continuations++; c.headers.continuations > maxContinuations {
			return violation(http2.ErrCodeEnhanceYourCalm, "a header block in more than %d frames", maxContinuations)
		}
		return c.block(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(id, int64(f.Increment))
	case *http2.RSTStreamFrame:
		s, err := c.known(id)
		if s != nil {
			s.lose(context.Canceled)
		}
		return err
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.PushPromiseFrame:
		return violation(http2.ErrCodeProtocol, "PUSH_PROMISE from a client")
	}
	return nil // also for GOAWAY: the client closes the connection when it is done
}

// known returns a stream, or nil if it has ended. A stream that was never opened is an error.
func (c *conn) known(id uint32) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id > c.newest || id%2 == 0 {
		return nil, violation(http2.ErrCodeProtocol, "stream %d is idle", id)
	}
	return c.streams[id], nil
}

func (c *conn) data(f *http2.DataFrame) error {
	s, err := c.known(f.StreamID)
	if err != nil {
		return err
	}
	if c.unacked += int(f.Length); c.unacked >= connWindow/16 {
		c.mu.Lock()
		c.out = appendWindowUpdate(c.out, 0, c.unacked)
		c.mu.Unlock()
		c.unacked = 0
	}
	if s == nil {
		return nil // it crossed with the end of the stream
	}
	c.mu.Lock()
	if s.gone || s.closed {
		c.mu.Unlock()
		return nil
	}
	s.received += int(f.Length)
	s.padding += int(f.Length) - len(f.Data())
	exceeded, ended := s.received > streamWindow, s.clientClosed
	c.mu.Unlock()
	switch {
	case ended:
		c.reset(s.id, http2.ErrCodeStreamClosed)
	case exceeded:
		c.reset(s.id, http2.ErrCodeFlowControl)
	default:
		s.deliver(f.Data(), f.StreamEnded())
	}
	return nil
}

// block handles a fragment of a header block.
func (c *conn) block(fragment []byte, last bool) error {
	if err := c.headers.take(fragment, last); err != nil {
		return violation(http2.ErrCodeCompression, "%v", err)
	}
	if !last {
		return nil
	}
	h := c.headers
	c.mu.Lock()
	s, isNew, refused := c.streams[h.stream], h.stream > c.newest, c.draining == refusing || len(c.streams) >= maxStreams
	ended := s != nil && s.clientClosed
	c.newest = max(c.newest, h.stream)
	c.mu.Unlock()
	switch {
	case ended:
		c.reset(s.id, http2.ErrCodeStreamClosed)
	case s != nil && h.isTrailers(): // gRPC has none of the client
		s.deliver(nil, true)
	case s != nil:
		c.reset(s.id, http2.ErrCodeProtocol)
	case !isNew:
		return violation(http2.ErrCodeStreamClosed, "HEADERS of stream %d, which has ended", h.stream)
	case refused:
		c.reset(h.stream, http2.ErrCodeRefusedStream)
	case !h.isRequest():
		c.reset(h.stream, http2.ErrCodeProtocol)
	default:
		c.open()
	}
	return nil
}

// open begins the stream whose headers are complete.
func (c *conn) open() {
	h := c.headers
	s := &Stream{conn: c, id: h.stream, busy: true}
	var err error
	s.httpStatus, err = acceptable(h)
	d, given, malformed := timeout(h.fields)
	switch {
	case err != nil:
	case malformed != nil:
		s.httpStatus, err = "400", malformed
	case given && d == 0:
		err = status.FromContextError(context.DeadlineExceeded).Err()
	}
	c.mu.Lock()
	s.window = c.initial
	c.streams[s.id] = s
	c.server.open.Add(1)
	if given && err == nil {
		s.deadline = time.Now().Add(d)
		s.expiry = time.AfterFunc(d, s.expire)
	}
	c.mu.Unlock()
	if err == nil {
		err = c.server.protect(func() (err error) {
			s.handler, err = c.server.options.Service(s, h.fields)
			return err
		})
	}
	c.mu.Lock()
	s.clientClosed = h.ends
	c.mu.Unlock()
	s.work(err)
}

// acceptable returns the reason why a stream cannot be served, or nil, and the HTTP status of the answer to what is
// not gRPC.
func acceptable(h *block) (httpStatus string, err error) {
	encoding := h.fields.Get("grpc-encoding")
	parameters, isGRPC := strings.CutPrefix(h.fields.Get("content-type"), "application/grpc")
	switch {
	case h.tooLarge():
		return "", status.Errorf(codes.ResourceExhausted, "headers of more than %d bytes", maxHeaders)
	case h.fields.Get(":method") != "POST":
		return "405", status.Error(codes.Internal, "the method is not POST")
	case !isGRPC || parameters != "" && parameters[0] != '+' && parameters[0] != ';':
		return "415", status.Error(codes.InvalidArgument, "the content type is not application/grpc")
	case encoding != "" && encoding != "identity":
		return "", status.Error(codes.Unimplemented, "messages cannot be compressed")
	}
	return "", nil
}

// reset ends a stream with an HTTP/2 error code.
func (c *conn) reset(id uint32, code http2.ErrCode) {
	c.mu.Lock()
	s := c.streams[id]
	c.out = appendReset(c.out, id, code)
	c.mu.Unlock()
	if s != nil {
		s.lose(context.Canceled)
	}
}

func (c *conn) windowUpdate(id uint32, n int64) error {
	const most = 1<<31 - 1
	if id == 0 {
		c.mu.Lock()
		defer c.resume() // without the lock
		defer c.mu.Unlock()
		if c.window += n; c.window > most {
			return violation(http2.ErrCodeFlowControl, "the window of the connection")
		}
		c.pump()
		return nil
	}
	s, err := c.known(id)
	if s == nil {
		return err
	}
	c.mu.Lock()
	s.window += n
	exceeded := s.window > most
	c.pump()
	c.mu.Unlock()
	if exceeded {
		c.reset(id, http2.ErrCodeFlowControl)
	}
	c.resume()
	return nil
}

// resume continues handlers whose clients have received the pending bytes.
func (c *conn) resume() {
	c.mu.Lock()
	var ready []*Stream
	for _, s := range c.drained {
		if !s.busy && !s.closed && !s.gone {
			s.busy = true
			ready = append(ready, s)
		}
	}
	clear(c.drained)
	c.drained = c.drained[:0]
	c.mu.Unlock()
	for _, s := range ready {
		s.work(nil)
	}
}

func (c *conn) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c.mu.Lock()
	defer c.resume()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return fmt.Errorf("%w: %v", err, s)
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			by := int64(s.Val) - c.initial
			c.initial = int64(s.Val)
			for _, of := range c.streams {
				if of.window += by; of.window > 1<<31-1 {
					return violation(http2.ErrCodeFlowControl, "the window of stream %d", of.id)
				}
			}
		case http2.SettingHeaderTableSize:
			c.table, c.shrunk = s.Val, c.shrunk || s.Val < c.table
		case http2.SettingMaxFrameSize:
			c.maxFrame = int(min(s.Val, maxFrame))
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out = appendFrame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.pump()
	return nil
}

func (c *conn) ping(f *http2.PingFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !f.IsAck():
		c.out = appendFrame(c.out, len(f.Data), http2.FramePing, http2.FlagPingAck, 0)
		c.out = append(c.out, f.Data[:]...)
	case f.Data == goAwayPing && c.draining == goAwaySent:
		c.draining = refusing
		c.out = appendGoAway(c.out, c.newest, http2.ErrCodeNo, "")
	}
	return nil
}

// goAway tells the client not to open more streams. Streams that are already open are served.
func (c *conn) goAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining != open {
		return
	}
	c.draining = goAwaySent
	c.out = appendGoAway(c.out, 1<<31-1, http2.ErrCodeNo, "")
	c.out = appendFrame(c.out, len(goAwayPing), http2.FramePing, 0, 0)
	c.out = append(c.out, goAwayPing[:]...)
	c.flush()
}
