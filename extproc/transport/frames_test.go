package transport_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// frame returns a frame as it stands on the wire.
func frame(size int, t http2.FrameType, flags http2.Flags, id uint32, payload string) []byte {
	b := []byte{byte(size >> 16), byte(size >> 8), byte(size), byte(t), byte(flags)}
	return append(binary.BigEndian.AppendUint32(b, id), payload...)
}

func (p *peer) write(b ...[]byte) {
	p.t.Helper()
	_, err := p.conn.Write(bytes.Join(b, nil))
	require.NoError(p.t, err)
}

// TestViolationsEndTheConnectionWithTheirCode holds the sections of RFC 9113 that say "connection error".
func TestViolationsEndTheConnectionWithTheirCode(t *testing.T) {
	w := serve(t)
	for name, c := range map[string]struct {
		code http2.ErrCode
		do   func(p *peer)
	}{
		"DATA on stream 0 (6.1)": {http2.ErrCodeProtocol,
			func(p *peer) { p.write(frame(1, http2.FrameData, 0, 0, "x")) }},
		"DATA on an idle one (5.1)": {http2.ErrCodeProtocol,
			func(p *peer) { p.write(frame(1, http2.FrameData, 0, 1, "x")) }},
		"DATA with too much padding (6.1)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.good(), false)
			p.write(frame(2, http2.FrameData, http2.FlagDataPadded, 1, "\x09x"))
		}},
		"HEADERS on stream 0 (6.2)":      {http2.ErrCodeProtocol, func(p *peer) { p.headers(0, p.good(), true) }},
		"HEADERS on an even one (5.1.1)": {http2.ErrCodeProtocol, func(p *peer) { p.headers(2, p.good(), true) }},
		"HEADERS on a lower one (5.1.1)": {http2.ErrCodeStreamClosed, func(p *peer) {
			p.headers(5, p.good(), true)
			p.headers(3, p.good(), true)
		}},
		"HEADERS on one that has ended (5.1)": {http2.ErrCodeStreamClosed, func(p *peer) {
			p.headers(1, p.good(), true)
			p.until(func(f http2.Frame) bool {
				return f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagHeadersEndStream)
			})
			p.headers(1, p.good(), true)
		}},
		"HEADERS within a block (6.2)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, 0, 1, "\x83"))
			p.headers(3, p.good(), true)
		}},
		"DATA within a block (6.10)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, 0, 1, "\x83"), frame(1, http2.FrameData, 0, 1, "x"))
		}},
		"CONTINUATION of nothing (6.10)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(1, http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, "\x83"))
		}},
		"CONTINUATION without end": {http2.ErrCodeEnhanceYourCalm, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, 0, 1, "\x83"))
			p.write(bytes.Repeat(frame(0, http2.FrameContinuation, 0, 1, ""), 17))
		}},
		"a block that is no HPACK (4.3)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(2, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xff\xff"))
		}},
		"a block that is cut (4.3)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(2, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x00\x05"))
		}},
		"an index that there is not (RFC 7541, 2.3.3)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xbf"))
		}},
		"the index 0 (RFC 7541, 6.1)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x80"))
		}},
		"a table that is too large (RFC 7541, 6.3)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(4, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x3f\xe2\x1f\x83"))
		}},
		"Huffman's code with too much padding (RFC 7541, 5.2)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(5, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\x00\x82\x1f\xff\x00"))
		}},
		"an integer without end (RFC 7541, 5.1)": {http2.ErrCodeCompression, func(p *peer) {
			p.write(frame(12, http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, "\xff"+strings.Repeat("\xff", 11)))
		}},
		"an unknown frame within a block (5.5)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, 0, 1, "\x83"), frame(1, 0xfe, 0, 1, "x"))
		}},
		"CONTINUATION of another (6.10)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, 0, 1, "\x83"), frame(1, http2.FrameContinuation, 0, 3, "\x84"))
		}},
		"CONTINUATION on stream 0 (6.10)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(1, http2.FrameHeaders, 0, 1, "\x83"), frame(1, http2.FrameContinuation, 0, 0, "\x84"))
		}},
		"CONTINUATION behind a block (6.10)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.good(), false)
			p.write(frame(1, http2.FrameContinuation, http2.FlagContinuationEndHeaders, 1, "\x84"))
		}},
		"PRIORITY on stream 0 (6.3)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(5, http2.FramePriority, 0, 0, "\x00\x00\x00\x01\x01"))
		}},
		"RST_STREAM on stream 0 (6.4)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(4, http2.FrameRSTStream, 0, 0, "\x00\x00\x00\x00"))
		}},
		"an acknowledgement of SETTINGS with some (6.5)": {http2.ErrCodeFrameSize, func(p *peer) {
			p.write(frame(6, http2.FrameSettings, http2.FlagSettingsAck, 0, "\x00\x04\x00\x00\xff\xff"))
		}},
		"frames of 16 MB (6.5.2)": {http2.ErrCodeProtocol, func(p *peer) {
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 24}))
		}},
		"HEADERS of a frame that is too large (4.2)": {http2.ErrCodeFrameSize,
			func(p *peer) { p.write(frame(1<<20, http2.FrameHeaders, 0, 1, "")) }},
		"a block of 128 KB": {http2.ErrCodeCompression, func(p *peer) {
			big := p.good("x-a", strings.Repeat("~", 30<<10), "x-b", strings.Repeat("~", 30<<10), "x-c",
				strings.Repeat("~", 30<<10))
			p.headers(1, big, true)
		}},
		"RST_STREAM of an idle one (5.1)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(4, http2.FrameRSTStream, 0, 1, "\x00\x00\x00\x00"))
		}},
		"RST_STREAM of a wrong size (6.4)": {http2.ErrCodeFrameSize, func(p *peer) {
			p.headers(1, p.good(), false)
			p.write(frame(3, http2.FrameRSTStream, 0, 1, "\x00\x00\x00"))
		}},
		"SETTINGS of a wrong size (6.5)": {http2.ErrCodeFrameSize,
			func(p *peer) { p.write(frame(3, http2.FrameSettings, 0, 0, "abc")) }},
		"SETTINGS on a stream (6.5)": {http2.ErrCodeProtocol,
			func(p *peer) { p.write(frame(0, http2.FrameSettings, 0, 1, "")) }},
		"SETTINGS of push: 2 (6.5.2)": {http2.ErrCodeProtocol, func(p *peer) {
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 2}))
		}},
		"a window of 2^31 (6.5.2)": {http2.ErrCodeFlowControl, func(p *peer) {
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}))
		}},
		"frames of 1 byte (6.5.2)": {http2.ErrCodeProtocol, func(p *peer) {
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}))
		}},
		"a window that SETTINGS make too large (6.9.2)": {http2.ErrCodeFlowControl, func(p *peer) {
			p.headers(1, p.good(), false)
			require.NoError(p.t, p.framer.WriteWindowUpdate(1, 1<<31-1-65535))
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 65536}))
		}},
		"a window of the connection that is too large (6.9.1)": {http2.ErrCodeFlowControl, func(p *peer) {
			require.NoError(p.t, p.framer.WriteWindowUpdate(0, 1<<31-1))
		}},
		"an update of 0 (6.9)": {http2.ErrCodeProtocol,
			func(p *peer) { require.NoError(p.t, p.framer.WriteWindowUpdate(0, 0)) }},
		"an update of 0 of an idle one (5.1)": {http2.ErrCodeProtocol,
			func(p *peer) { require.NoError(p.t, p.framer.WriteWindowUpdate(1, 0)) }},
		"HEADERS with too much padding (6.2)": {http2.ErrCodeProtocol, func(p *peer) {
			p.write(frame(2, http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, 1, "\x09\x83"))
		}},
		"an update of an idle one (5.1)": {http2.ErrCodeProtocol,
			func(p *peer) { require.NoError(p.t, p.framer.WriteWindowUpdate(1, 1)) }},
		"an update of a wrong size (6.9)": {http2.ErrCodeFrameSize,
			func(p *peer) { p.write(frame(3, http2.FrameWindowUpdate, 0, 0, "abc")) }},
		"PING on a stream (6.7)": {http2.ErrCodeProtocol,
			func(p *peer) { p.write(frame(8, http2.FramePing, 0, 1, "12345678")) }},
		"PING of a wrong size (6.7)": {http2.ErrCodeFrameSize,
			func(p *peer) { p.write(frame(6, http2.FramePing, 0, 0, "123456")) }},
		"GOAWAY on a stream (6.8)": {http2.ErrCodeProtocol,
			func(p *peer) { p.write(frame(8, http2.FrameGoAway, 0, 1, "12345678")) }},
		"PUSH_PROMISE (8.4)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.good(), false)
			p.write(frame(5, http2.FramePushPromise, http2.FlagPushPromiseEndHeaders, 1, "\x00\x00\x00\x02\x83"))
		}},
		"a frame that is too large (4.2)": {http2.ErrCodeFrameSize,
			func(p *peer) { p.write(frame(1<<20, http2.FrameData, 0, 1, "")) }},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.connect()
			p.t = t
			c.do(p)
			require.Equal(t, c.code, p.goAway())
			_, err := io.Copy(io.Discard, p.conn)
			var late net.Error
			require.False(t, err != nil && errors.As(err, &late) && late.Timeout(), "the connection is closed")
		})
	}
}

// TestViolationsOfAStreamEndItAndNoOther holds the sections that say "stream error".
func TestViolationsOfAStreamEndItAndNoOther(t *testing.T) {
	w := serve(t)
	for name, c := range map[string]struct {
		code http2.ErrCode
		do   func(p *peer)
	}{
		"DATA after its end (5.1)": {http2.ErrCodeStreamClosed, func(p *peer) {
			p.headers(1, p.good(), false)
			require.NoError(p.t, p.framer.WriteData(1, true, message("wait")))
			require.NoError(p.t, p.framer.WriteData(1, false, message("x")))
		}},
		"HEADERS after its end (5.1)": {http2.ErrCodeStreamClosed, func(p *peer) {
			p.headers(1, p.good(), false)
			require.NoError(p.t, p.framer.WriteData(1, true, message("wait")))
			p.headers(1, p.fields("x", "1"), true)
		}},
		"more than its window (6.9.1)": {http2.ErrCodeFlowControl, func(p *peer) {
			p.headers(1, p.good(), false)
			require.NoError(p.t, p.framer.WriteData(1, false, message("wait")))
			for range 70 {
				require.NoError(p.t, p.framer.WriteData(1, false, message(strings.Repeat("x", 16<<10))))
			}
		}},
		"an update of 0 (6.9)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.good(), false)
			require.NoError(p.t, p.framer.WriteWindowUpdate(1, 0))
		}},
		"a window that is too large (6.9.1)": {http2.ErrCodeFlowControl, func(p *peer) {
			p.headers(1, p.good(), false)
			require.NoError(p.t, p.framer.WriteWindowUpdate(1, 1<<31-1))
		}},
		"a pseudo-header that there is not (8.3)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.fields(":method", "POST", ":scheme", "http", ":path", "/", ":other", "1"), true)
		}},
		"a pseudo-header of answers (8.3)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.fields(":method", "POST", ":scheme", "http", ":path", "/", ":status", "200"), true)
		}},
		"a path twice (8.3)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.fields(":method", "POST", ":scheme", "http", ":path", "/", ":path", "/echo/Echo"), true)
		}},
		"no path (8.3.1)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.fields(":method", "POST", ":scheme", "http"), true) }},
		"no method (8.3.1)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.fields(":scheme", "http", ":path", "/"), true) }},
		"no scheme (8.3.1)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.fields(":method", "POST", ":path", "/"), true) }},
		"an empty path (8.3.1)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.fields(":method", "POST", ":scheme", "http", ":path", ""), true)
		}},
		"nothing (8.3.1)": {http2.ErrCodeProtocol, func(p *peer) { p.headers(1, nil, true) }},
		"a connection field (8.2.2)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.good("connection", "close"), true) }},
		"TE of something (8.2.2)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.good("te", "gzip"), true) }},
		"a pseudo-header in trailers (8.1)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.good(), false)
			p.headers(1, p.fields(":method", "POST"), true)
		}},
		"upper case (8.2)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.good("X-Up", "1"), true) }},
		"a pseudo-header behind (8.3)": {http2.ErrCodeProtocol,
			func(p *peer) { p.headers(1, p.good(":path", "/"), true) }},
		"a second head without end (8.1)": {http2.ErrCodeProtocol, func(p *peer) {
			p.headers(1, p.good(), false)
			p.headers(1, p.fields("x", "1"), false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.connect()
			p.t = t
			c.do(p)
			require.Equal(t, c.code, p.reset(1))
			p.headers(3, p.good(), false)
			require.NoError(t, p.framer.WriteData(3, true, message("hello")))
			p.until(func(f http2.Frame) bool {
				d, ok := f.(*http2.DataFrame)
				return ok && d.StreamID == 3 && bytes.Equal(d.Data(), message("hello"))
			})
		})
	}
}

// TestWhatIsAllowedIsTaken: padding, priorities, unknown frames, trailers, bytes one at a time.
func TestWhatIsAllowedIsTaken(t *testing.T) {
	w := serve(t)
	p := w.connect(http2.Setting{ID: http2.SettingEnablePush, Val: 0}, http2.Setting{ID: 0x77, Val: 1})
	block := p.good("x-role", "r")
	require.NoError(t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:10], PadLength: 7,
		Priority: http2.PriorityParam{StreamDep: 3, Weight: 9}}))
	require.NoError(t, p.framer.WriteContinuation(1, false, block[10:12]))
	require.NoError(t, p.framer.WriteContinuation(1, true, block[12:]))
	require.NoError(t, p.framer.WriteRawFrame(0xfe, 0xff, 1, []byte("unknown")))
	require.NoError(t, p.framer.WritePriority(1, http2.PriorityParam{StreamDep: 5}))
	require.NoError(t, p.framer.WriteRSTStream(1, http2.ErrCodeNo))
	p.headers(3, p.good(), false)
	for _, b := range message("hello") {
		require.NoError(t, p.framer.WriteDataPadded(3, false, []byte{b}, make([]byte, 3)))
	}
	p.headers(3, p.fields("x-trailer", "1"), true)
	p.until(func(f http2.Frame) bool {
		d, ok := f.(*http2.DataFrame)
		return ok && bytes.Equal(d.Data(), message("hello"))
	})
	p.until(func(f http2.Frame) bool {
		return f.Header().StreamID == 3 && f.Header().Flags.Has(http2.FlagHeadersEndStream)
	})
	require.NoError(t, p.framer.WriteData(3, false, []byte("late"))) // it may cross with the end
	require.NoError(t, p.framer.WriteGoAway(0, http2.ErrCodeNo, nil))
	p.pong()
}

// TestNothingIsSentBeyondTheWindows has a peer that takes little.
func TestNothingIsSentBeyondTheWindows(t *testing.T) {
	w := serve(t)
	p := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	p.headers(1, p.good(), false)
	require.NoError(t, p.framer.WriteData(1, false, message("hello, world")))
	require.NoError(t, p.framer.WriteData(1, true, message("again")))
	p.pong()
	var got []byte
	data := func(n int) {
		t.Helper()
		for n > 0 {
			d := p.until(func(f http2.Frame) bool { _, ok := f.(*http2.DataFrame); return ok }).(*http2.DataFrame)
			got = append(got, d.Data()...)
			n -= len(d.Data())
		}
		require.Zero(t, n)
	}
	q := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	q.headers(1, q.good(), false)
	require.NoError(t, q.framer.WriteData(1, true, message("hello")))
	q.pong()
	require.NoError(t, q.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3}))
	d := q.until(func(f http2.Frame) bool { _, ok := f.(*http2.DataFrame); return ok })
	require.EqualValues(t, 3, d.Header().Length)
	// it is below 0 now
	require.NoError(t, q.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}))
	require.NoError(t, q.framer.WriteWindowUpdate(1, 2))
	q.pong()
	require.NoError(t, q.framer.WriteWindowUpdate(1, 100))
	d = q.until(func(f http2.Frame) bool { _, ok := f.(*http2.DataFrame); return ok })
	require.EqualValues(t, 7, d.Header().Length)

	require.NoError(t, p.framer.WriteWindowUpdate(1, 5))
	data(5)
	p.pong()
	require.NoError(t, p.framer.WriteWindowUpdate(1, 100))
	data(12)
	require.Equal(t, append(message("hello, world")[10:], message("again")...), got)
}

// TestAClientThatTakesNothingHoldsUpItself: its messages wait, and what they have is bounded by its own window.
func TestAClientThatTakesNothingHoldsUpItself(t *testing.T) {
	w := serve(t)
	p := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
	p.headers(1, p.good(), false)
	p.headers(3, p.good(), false)
	for range 50 {
		require.NoError(t, p.framer.WriteData(1, false, message(strings.Repeat("x", 16<<10))))
	}
	updated := false
	require.NoError(t, p.framer.WriteData(3, true, message("hello")))
	p.until(func(f http2.Frame) bool {
		u, ok := f.(*http2.WindowUpdateFrame)
		updated = updated || ok && u.StreamID == 1
		d, ok := f.(*http2.DataFrame)
		return ok && d.StreamID == 3
	})
	require.False(t, updated, "what it sends is not taken while its answers wait")
	require.NoError(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	require.NoError(t, p.framer.WriteWindowUpdate(0, 1<<30))
	for n := 100; n < 50*(16<<10+5); { // the first 100 have come
		d := p.until(func(f http2.Frame) bool { _, ok := f.(*http2.DataFrame); return ok }).(*http2.DataFrame)
		n += len(d.Data())
	}
}

func TestAStrangerIsNotWaitedFor(t *testing.T) {
	w := serve(t)
	c, err := net.Dial("unix", w.address)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n     ")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, c)
	require.NoError(t, err, "the connection is closed")
}

func TestWhatIsNoGRPCIsRefused(t *testing.T) {
	w := serve(t)
	for name, pairs := range map[string][]string{
		"GET": {":method", "GET", ":scheme", "http", ":path", "/echo/Echo", "content-type", "application/grpc"},
		"JSON": {":method", "POST", ":scheme", "http", ":path", "/echo/Echo", "content-type",
			"application/json"},
		"compressed": {":method", "POST", ":scheme", "http", ":path", "/echo/Echo", "content-type", "application/grpc",
			"grpc-encoding", "gzip"},
		"too many headers": {":method", "POST", ":scheme", "http", ":path", "/echo/Echo", "content-type",
			"application/grpc", "x-a",
			strings.Repeat("a", 40<<10), "x-b", strings.Repeat("a", 40<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.connect()
			p.t = t
			p.headers(1, p.fields(pairs...), true)
			p.until(func(f http2.Frame) bool {
				return f.Header().StreamID == 1 && f.Header().Type == http2.FrameHeaders &&
					f.Header().Flags.Has(http2.FlagHeadersEndStream)
			})
			p.pong()
		})
	}
}
