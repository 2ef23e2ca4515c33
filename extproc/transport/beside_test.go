package transport_test

import (
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// request is a script of a stream with such a head and such bytes, after which the client's side ends.
func request(data []byte, pairs ...string) func(p *peer) {
	return func(p *peer) {
		p.headers(1, p.fields(pairs...), false)
		require.NoError(p.t, p.framer.WriteData(1, true, data))
	}
}

// head are the headers of an echo, some of which are replaced.
func head(replaced ...string) []string {
	pairs := []string{":method", "POST", ":scheme", "http", ":path", "/echo/Echo", ":authority", "x", "te", "trailers",
		"content-type", "application/grpc"}
replacing:
	for i := 0; i < len(replaced); i += 2 {
		for at := 0; at < len(pairs); at += 2 {
			if pairs[at] == replaced[i] {
				pairs[at+1] = replaced[i+1]
				continue replacing
			}
		}
		pairs = append(pairs, replaced[i], replaced[i+1])
	}
	return pairs
}

// TestBothTransportsAnswerAlike has what clients do wrong, and the edges of what they may do, beside grpc-go.
func TestBothTransportsAnswerAlike(t *testing.T) {
	sides := []*side{newSide(t, "extproc/transport"), newSide(t, "grpc-go")}
	hello := message("hello")
	came := func(data []byte) string { return fmt.Sprintf("%d bytes %08x", len(data), crc32.ChecksumIEEE(data)) }
	heard := came(hello) + ", grpc-status 0"
	for name, c := range map[string]struct {
		want string
		do   func(p *peer)
	}{
		"a message":        {heard, request(hello, head()...)},
		"no message":       {"0 bytes 00000000, grpc-status 0", request(nil, head()...)},
		"an empty message": {came(message("")) + ", grpc-status 0", request(message(""), head()...)},
		"a method that there is not": {"0 bytes 00000000, grpc-status 12",
			request(hello, head(":path", "/echo/Other")...)},
		"an error": {"0 bytes 00000000, grpc-status 9", request(message("fail"), head()...)},
		"a message above the bound": {"0 bytes 00000000, grpc-status 8",
			request([]byte{0, 0, 0x40, 0, 1, 'x'}, head()...)},
		"a message of 4 GB": {"0 bytes 00000000, grpc-status 8",
			request([]byte{0, 255, 255, 255, 255, 'x'}, head()...)},
		"gzip": {"0 bytes 00000000, grpc-status 12",
			request(hello, head("grpc-encoding", "gzip")...)},
		"a content type with a codec": {heard, request(hello, head("content-type", "application/grpc+proto")...)},
		"a content type with a parameter": {heard,
			request(hello, head("content-type", "application/grpc;charset=utf-8")...)},
		"a timeout of a day":       {heard, request(hello, head("grpc-timeout", "24H")...)},
		"a timeout of 11000 years": {heard, request(hello, head("grpc-timeout", "99999999H")...)},
		"a message that is cut":    {"0 bytes 00000000, grpc-status 13", request(hello[:7], head()...)},
		"a head that is cut":       {"0 bytes 00000000, grpc-status 13", request(hello[:3], head()...)},
		"a second one that is cut": {came(hello) + ", grpc-status 13",
			request(append(hello[:10:10], 0, 0), head()...)},
		"GET": {"0 bytes 00000000, status 405, grpc-status 13",
			request(hello, head(":method", "GET")...)},
		"JSON": {"0 bytes 00000000, status 415, grpc-status 3",
			request(hello, head("content-type", "application/json")...)},
		"gRPC-Web": {"0 bytes 00000000, status 415, grpc-status 3",
			request(hello, head("content-type", "application/grpc-web")...)},
		"a timeout of nothing": {"0 bytes 00000000, grpc-status 4",
			request(hello, head("grpc-timeout", "0S")...)},
		"a timeout without unit": {"0 bytes 00000000, status 400, grpc-status 13",
			request(hello, head("grpc-timeout", "10")...)},
		"a timeout without number": {"0 bytes 00000000, status 400, grpc-status 13",
			request(hello, head("grpc-timeout", "S")...)},
		"a timeout of too many digits": {"0 bytes 00000000, status 400, grpc-status 13",
			request(hello, head("grpc-timeout", "123456789S")...)},
		"a compressed message": {"0 bytes 00000000, grpc-status 13",
			request(append([]byte{1}, hello[1:]...), head()...)},
		"a message of another kind": {"0 bytes 00000000, grpc-status 13",
			request(append([]byte{7}, hello[1:]...), head()...)},
		"unknown frames and settings": {heard, func(p *peer) {
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: 0xf000, Val: 9}))
			require.NoError(p.t, p.framer.WriteRawFrame(0xfe, 0xff, 0, []byte("unknown")))
			request(hello, head()...)(p)
		}},
		"a priority": {heard, func(p *peer) {
			require.NoError(p.t, p.framer.WritePriority(1, http2.PriorityParam{StreamDep: 7, Weight: 1}))
			request(hello, head()...)(p)
		}},
		"empty frames": {heard, func(p *peer) {
			p.headers(1, p.fields(head()...), false)
			for range 1000 {
				require.NoError(p.t, p.framer.WriteData(1, false, nil))
			}
			require.NoError(p.t, p.framer.WriteData(1, true, hello))
		}},
		"padding": {heard, func(p *peer) {
			p.headers(1, p.fields(head()...), false)
			for _, b := range hello {
				require.NoError(p.t, p.framer.WriteDataPadded(1, false, []byte{b}, make([]byte, 255)))
			}
			require.NoError(p.t, p.framer.WriteDataPadded(1, true, nil, make([]byte, 255)))
		}},
		"windows that are taken back": {heard, func(p *peer) {
			for _, window := range []uint32{0, 1 << 20, 0, 3} {
				require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
			}
			request(hello, head()...)(p)
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
			require.NoError(p.t, p.framer.WriteWindowUpdate(1, 10))
		}},
		"a head that is resized": {heard, func(p *peer) {
			p.encoder.SetMaxDynamicTableSize(0)
			request(hello, head()...)(p)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range sides {
				p := (&world{t: t, address: s.world.address}).connect()
				p.framer.AllowIllegalReads, p.framer.ReadMetaHeaders = false, hpack.NewDecoder(4096, nil)
				c.do(p)
				require.Equal(t, c.want, p.ending(1), s.name)
			}
		})
	}
}
