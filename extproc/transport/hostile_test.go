package transport_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/modelgate/modelgate/internal/testenv"
)

// TestPaddingIsAcknowledged sends more padding than the window of a stream has bytes.
func TestPaddingIsAcknowledged(t *testing.T) {
	w := serve(t)
	p := w.connect()
	p.headers(1, p.good(), false)
	said := message(strings.Repeat("x", 6000))
	go func() {
		for _, b := range said {
			if p.framer.WriteDataPadded(1, false, []byte{b}, make([]byte, 255)) != nil {
				return // what is heard tells why
			}
		}
	}()
	var heard []byte
	for len(heard) < len(said) {
		f := p.until(func(f http2.Frame) bool {
			_, ended := f.(*http2.RSTStreamFrame)
			_, data := f.(*http2.DataFrame)
			return ended || data
		})
		require.IsType(t, &http2.DataFrame{}, f, "the stream goes on")
		heard = append(heard, f.(*http2.DataFrame).Data()...)
	}
	require.Equal(t, said, heard)
}

// TestASmallerTableIsAcknowledged: a peer that has made its table of headers smaller waits for an update of its size
// at the beginning of the next header block (RFC 7541, section 4.2), and may end the connection without it.
func TestASmallerTableIsAcknowledged(t *testing.T) {
	w := serve(t)
	p := w.connect(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
	const update, other = 0x20, 0x88
	p.headers(1, p.good(), false)
	require.NoError(t, p.framer.WriteData(1, true, message("hello")))
	require.Equal(t, []byte{update, 0}, p.blocks(1))
	p.headers(3, p.good(), false)
	require.NoError(t, p.framer.WriteData(3, true, message("hello")))
	require.Equal(t, []byte{other, 0}, p.blocks(3), "once")

	require.NoError(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 9000}))
	require.NoError(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4000}))
	p.headers(5, p.good(), false)
	require.NoError(t, p.framer.WriteData(5, true, message("fail")))
	require.Equal(t, []byte{update}, p.blocks(5), "in the only block")
}

// blocks returns the first bytes of a stream's header blocks.
func (p *peer) blocks(id uint32) (first []byte) {
	p.t.Helper()
	p.until(func(f http2.Frame) bool {
		h, ok := f.(*http2.HeadersFrame)
		if !ok || h.StreamID != id {
			return false
		}
		first = append(first, h.HeaderBlockFragment()[0])
		return h.StreamEnded()
	})
	return first
}

// TestWhatAConnectionHoldsIsBounded has peers that let messages pile up in every place where they do.
func TestWhatAConnectionHoldsIsBounded(t *testing.T) {
	w := serveHolding(t, 1<<20)
	half := func(p *peer, id uint32, first string) {
		p.headers(id, p.good(), false)
		require.NoError(t, p.framer.WriteData(id, false, message(first)))
		for range 6 {
			require.NoError(t, p.framer.WriteData(id, false, message(strings.Repeat("x", 100<<10))))
		}
	}
	for name, c := range map[string]struct {
		window uint32
		pile   func(p *peer, id uint32)
	}{
		"behind a handler that waits": {1 << 20, func(p *peer, id uint32) { half(p, id, "wait") }},
		"before a client that takes nothing": {0, func(p *peer, id uint32) {
			p.headers(id, p.good(), false)
			for range 6 {
				require.NoError(t, p.framer.WriteData(id, false, message("keep"+strings.Repeat("x", 100<<10))))
			}
			require.NoError(t, p.framer.WriteData(id, false, message("give")))
		}},
		"in messages that do not come whole": {1 << 20, func(p *peer, id uint32) {
			p.headers(id, p.good(), false)
			whole := message(strings.Repeat("x", 700<<10))
			for at := 0; at < 600<<10; at += 100 << 10 {
				require.NoError(t, p.framer.WriteData(id, false, whole[at:at+100<<10]))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: c.window})
			p.t = t
			for id := uint32(1); id < 9; id += 2 {
				c.pile(p, id)
			}
			p.until(func(f http2.Frame) bool {
				r, ok := f.(*http2.RSTStreamFrame)
				return ok && r.ErrCode == http2.ErrCodeEnhanceYourCalm
			})
			p.pong()
			require.Eventually(t, func() bool { // once the handlers of what was reset have ended
				held, bound, _ := w.server.Held()
				return held <= bound
			}, soon, time.Millisecond)
			require.NoError(t, p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
			require.NoError(t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
			p.headers(11, p.good(), false)
			require.NoError(t, p.framer.WriteData(11, true, message("hello")))
			p.until(func(f http2.Frame) bool {
				d, ok := f.(*http2.DataFrame)
				return ok && d.StreamID == 11 && string(d.Data()) == string(message("hello"))
			})
			_ = p.conn.Close()
		})
	}
}

// TestWhatAllConnectionsHoldIsBounded: Envoy opens as many connections as it needs. A stream that holds little is
// served beside those that hold much.
func TestWhatAllConnectionsHoldIsBounded(t *testing.T) {
	w := serveHolding(t, 1<<20)
	for range 4 {
		p := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for id := uint32(1); id < 5; id += 2 {
			p.headers(id, p.good(), false)
			for range 4 {
				require.NoError(t, p.framer.WriteData(id, false, message("keep"+strings.Repeat("x", 100<<10))))
			}
			require.NoError(t, p.framer.WriteData(id, false, message("give")))
		}
		p.pong()
	}
	held, bound, _ := w.server.Held()
	require.Less(t, held, 2*bound)
	p := w.connect(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	p.headers(1, p.good(), false)
	whole := message(strings.Repeat("x", 15<<10))
	require.NoError(t, p.framer.WriteData(1, false, whole[:10<<10]))
	p.pong()
	require.NoError(t, p.framer.WriteData(1, true, whole[10<<10:]))
	for got := 0; got < len(whole); {
		f := p.until(func(f http2.Frame) bool { return f.Header().StreamID == 1 && f.Header().Type != http2.FrameHeaders })
		d, ok := f.(*http2.DataFrame)
		require.True(t, ok, "%v", f)
		got += len(d.Data())
	}
}

// TestFloodsCostTheirSenderOnly: whatever a peer sends much of, no more is kept than the server has read at once,
// other connections are served, and every handler ends.
func TestFloodsCostTheirSenderOnly(t *testing.T) {
	many := uint32(testenv.Size(2000, 20_000))
	for name, flood := range map[string]func(p *peer, n uint32) error{
		"PING":     func(p *peer, _ uint32) error { return p.framer.WritePing(false, [8]byte{}) },
		"SETTINGS": func(p *peer, _ uint32) error { return p.framer.WriteSettings() },
		"RST_STREAM of a stream that was just opened": func(p *peer, n uint32) error {
			if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 3, BlockFragment: p.good(),
				EndHeaders: true}); err != nil {
				return err
			}
			return p.framer.WriteRSTStream(2*n+3, http2.ErrCodeCancel)
		},
		"streams that break a rule": func(p *peer, n uint32) error { // the server resets them
			if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 3, BlockFragment: p.good(),
				EndHeaders: true}); err != nil {
				return err
			}
			return p.framer.WriteWindowUpdate(2*n+3, 0)
		},
		"empty DATA":       func(p *peer, _ uint32) error { return p.framer.WriteData(1, false, nil) },
		"WINDOW_UPDATE":    func(p *peer, _ uint32) error { return p.framer.WriteWindowUpdate(1, 1) },
		"PRIORITY":         func(p *peer, n uint32) error { return p.framer.WritePriority(n+1, http2.PriorityParam{Weight: 1}) },
		"unknown frames":   func(p *peer, _ uint32) error { return p.framer.WriteRawFrame(0xfe, 0, 0, []byte("unknown")) },
		"DATA of the dead": func(p *peer, _ uint32) error { return p.framer.WriteData(3, false, []byte("late")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t)
			p, other := w.connect(), w.open(t.Context(), w.dial(), "/echo/Echo")
			p.t = t
			p.headers(1, p.good(), false)
			if name == "DATA of the dead" {
				p.headers(3, p.good(), false)
				require.NoError(t, p.framer.WriteRSTStream(3, http2.ErrCodeCancel))
			}
			heard := make(chan struct{}) // reads all the while
			go func() {
				defer close(heard)
				for {
					f, err := p.framer.ReadFrame()
					if d, ok := f.(*http2.DataFrame); err != nil || ok && d.StreamEnded() {
						return
					}
					if h, ok := f.(*http2.HeadersFrame); ok && h.StreamID == 1 && h.StreamEnded() {
						return
					}
				}
			}()
			for n := range many {
				require.NoError(t, flood(p, n))
				if n%(many/10) == 0 {
					other.say(t, "hello")
					got, err := other.hear()
					require.NoError(t, err)
					require.Equal(t, "hello", got)
					_, _, waiting := w.server.Held()
					require.Less(t, waiting, 1<<20)
				}
			}
			require.NoError(t, p.framer.WriteData(1, true, message("hello")))
			<-heard
			require.NoError(t, other.CloseSend())
			_, err := other.hear()
			require.Error(t, err)
			require.Eventually(t, func() bool { _, open := w.server.Open(); return open == 0 }, soon, time.Millisecond)
		})
	}
}

// TestAFloodThatIsNotReadStops: the server reads no more of a peer that does not read its answers.
func TestAFloodThatIsNotReadStops(t *testing.T) {
	w := serve(t)
	p := w.connect()
	require.NoError(t, p.conn.SetWriteDeadline(time.Now().Add(time.Second)))
	var err error
	for n := 0; err == nil && n < 64<<20; n += 17 {
		err = p.framer.WritePing(false, [8]byte{})
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, _, waiting := w.server.Held()
	require.Less(t, waiting, 1<<20)
}
