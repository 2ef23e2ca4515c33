package transport_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
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

// TestASmallerTableIsAcknowledged: a peer that has made its table of headers smaller waits for an update of its size at
// the beginning of the next header block (RFC 7541, section 4.2), and may end the connection without it.
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
			held, bound, _ := w.server.Held()
			require.LessOrEqual(t, held, bound+100<<10)
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
