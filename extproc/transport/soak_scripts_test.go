package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// talk plays a stream of grpc-go's client. All that it does follows from the random numbers, and what it returns must
// be the same on both sides. It reports whether the handler must have seen the stream.
func (s *side) talk(id string, random *rand.Rand) (outcome string, seen bool) {
	ctx, leave := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), "x-id", id,
		"x-pad", strings.Repeat("p", random.IntN(1<<uint(random.IntN(14))))))
	defer leave()
	end := random.IntN(8)
	if end == 0 {
		ctx, leave = context.WithTimeout(ctx, 100*time.Millisecond)
		defer leave()
	}
	opened, err := s.clients[random.IntN(len(s.clients))].NewStream(ctx, &streams, "/echo/Echo", grpc.WaitForReady(true))
	if err != nil {
		return ended(err), false
	}
	c := call{opened}
	var heard strings.Builder
	if end != 0 { // what is said before a deadline depends on how fast that is
		for range random.IntN(6) {
			if err := c.exchange(&heard, random); err != nil {
				return heard.String() + ended(err), true
			}
		}
	}
	last, leaves := map[int]string{0: "stall", 1: "stall", 2: "stall", 3: "fail", 4: "mute"}[end], end == 1 || end == 2
	if end == 5 && random.IntN(10) == 0 {
		last = strings.Repeat("x", soakMessage+1)
	}
	b := []byte(last)
	if last != "" {
		_ = c.SendMsg(&b) // if it fails, so does hear
	}
	if leaves {
		leave()
	} else if end != 0 {
		_ = c.CloseSend()
	}
	_, err = c.hear()
	return heard.String() + ended(err), end > 2
}

// exchange says something and hears the answers.
func (c call) exchange(heard *strings.Builder, random *rand.Rand) error {
	verb, answers := "say", 1
	switch random.IntN(6) {
	case 0:
		verb = "wait"
	case 1:
		verb, answers = "many", 5
	case 2:
		verb, answers = "mute", 0
	}
	size := random.IntN(1 << uint(random.IntN(18)))
	if random.IntN(100) == 0 {
		size = 1<<20 + random.IntN(1<<20)
	}
	sent := []byte(verb + strings.Repeat(fmt.Sprint(random.IntN(10)), size))
	if err := c.SendMsg(&sent); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for range answers {
		got, err := c.hear()
		if err != nil {
			return err
		}
		fmt.Fprintf(heard, "%d bytes %08x, ", len(got), crc32.ChecksumIEEE([]byte(got)))
	}
	return nil
}

func ended(err error) string {
	if errors.Is(err, io.EOF) {
		return "OK"
	}
	return status.Code(err).String()
}

// A frameScript plays a connection by frames, and returns what came of it.
type frameScript func(p *peer, id string, random *rand.Rand) string

// frameScripts are what no client that means well does.
var frameScripts = []struct {
	name     string
	settings []http2.Setting
	play     frameScript
}{
	{"a head in many frames", nil, func(p *peer, id string, random *rand.Rand) string {
		block := p.good("x-id", id, "x-long", strings.Repeat("l", 1000+random.IntN(20_000)))
		cut := 1 + random.IntN(500)
		require.NoError(p.t, p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:cut]}))
		for block = block[cut:]; len(block) > 4000; block = block[4000:] {
			require.NoError(p.t, p.framer.WriteContinuation(1, false, block[:4000]))
		}
		require.NoError(p.t, p.framer.WriteContinuation(1, true, block))
		return p.say(1, "hello") + p.ending(1)
	}},
	{"resets in every state", nil, func(p *peer, id string, random *rand.Rand) string {
		stream := uint32(1)
		for n := range 5 + random.IntN(20) {
			p.headers(stream, p.good("x-id", fmt.Sprint(id, "-", n)), false)
			switch random.IntN(4) {
			case 0:
				require.NoError(p.t, p.framer.WriteData(stream, false, message("part of a message")[:3+random.IntN(10)]))
			case 1:
				require.NoError(p.t, p.framer.WriteData(stream, false, message("stall")))
			case 2:
				require.NoError(p.t, p.framer.WriteData(stream, true, message("stall")))
			}
			require.NoError(p.t, p.framer.WriteRSTStream(stream, http2.ErrCodeCancel))
			stream += 2
		}
		p.headers(stream, p.good("x-id", id), false)
		return p.say(stream, "hello") + p.ending(stream)
	}},
	{"a reset while the answer waits for a window", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}},
		func(p *peer, id string, random *rand.Rand) string {
			for stream := uint32(1); stream < 11; stream += 2 {
				p.headers(stream, p.good("x-id", fmt.Sprint(id, "-", stream)), false)
				require.NoError(p.t, p.framer.WriteData(stream, random.IntN(2) == 0, message("many"+strings.Repeat("w", 1000))))
				require.NoError(p.t, p.framer.WriteRSTStream(stream, http2.ErrCodeCancel))
			}
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}))
			p.headers(11, p.good("x-id", id), false)
			return p.say(11, "hello") + p.ending(11)
		}},
	{"a window of a few bytes", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 7}},
		func(p *peer, id string, random *rand.Rand) string {
			p.headers(1, p.good("x-id", id), false)
			require.NoError(p.t, p.framer.WriteData(1, false, message(strings.Repeat("t", 3000+random.IntN(3000)))))
			p.grant = 1 + random.IntN(500)
			require.NoError(p.t, p.framer.WriteWindowUpdate(1, 1))
			require.NoError(p.t, p.framer.WriteData(1, true, message("last")))
			return p.ending(1)
		}},
	{"a slow reader of much", nil, func(p *peer, id string, random *rand.Rand) string {
		p.headers(1, p.good("x-id", id), false)
		much := message("many" + strings.Repeat("s", 16<<10+random.IntN(40<<10)))
		for ; len(much) > 16<<10; much = much[16<<10:] {
			require.NoError(p.t, p.framer.WriteData(1, false, much[:16<<10]))
		}
		require.NoError(p.t, p.framer.WriteData(1, true, much))
		p.grant = 8 << 10
		return p.ending(1)
	}},
	{"a peer that takes nothing, and goes", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}},
		func(p *peer, id string, random *rand.Rand) string {
			for n := range uint32(10) {
				p.headers(2*n+1, p.good("x-id", fmt.Sprint(id, "-", n)), false)
				require.NoError(p.t, p.framer.WriteData(2*n+1, random.IntN(2) == 0, message("many"+strings.Repeat("n", 4<<10))))
			}
			p.pong()
			return "gone"
		}},
	{"bytes one at a time, and empty frames", nil, func(p *peer, id string, random *rand.Rand) string {
		p.headers(1, p.good("x-id", id), false)
		for _, b := range message("one at a time") {
			require.NoError(p.t, p.framer.WriteDataPadded(1, false, []byte{b}, make([]byte, random.IntN(9))))
			require.NoError(p.t, p.framer.WriteData(1, false, nil))
		}
		require.NoError(p.t, p.framer.WriteData(1, true, nil))
		return p.ending(1)
	}},
	{"many settings and pings", nil, func(p *peer, id string, random *rand.Rand) string {
		for range 20 + random.IntN(50) {
			require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize,
				Val: uint32(100 + random.IntN(1<<16))}))
		}
		require.NoError(p.t, p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16}))
		p.pong()
		p.headers(1, p.good("x-id", id), false)
		return p.say(1, "hello") + p.ending(1)
	}},
	{"a connection that breaks within a frame", nil, func(p *peer, id string, random *rand.Rand) string {
		p.headers(1, p.good("x-id", id), false)
		p.write(frame(100, http2.FrameData, 0, 1, string(message("part"))[:random.IntN(9)]))
		return "gone"
	}},
	{"a connection that breaks within a head", nil, func(p *peer, id string, random *rand.Rand) string {
		block := p.good("x-id", id)
		p.write(frame(len(block), http2.FrameHeaders, 0, 1, string(block)))
		return "gone"
	}},
	{"a message above the bound", nil, func(p *peer, id string, _ *rand.Rand) string {
		p.headers(1, p.good("x-id", id), false)
		require.NoError(p.t, p.framer.WriteData(1, false, []byte{0, 0x7f, 0xff, 0xff, 0xff, 'x'}))
		return p.ending(1)
	}},
	{"a method that is not there", nil, func(p *peer, _ string, _ *rand.Rand) string {
		p.headers(1, p.fields(":method", "POST", ":scheme", "http", ":path", "/echo/Other", ":authority", "x",
			"content-type", "application/grpc", "te", "trailers"), true)
		return p.ending(1)
	}},
	{"a violation", nil, func(p *peer, id string, _ *rand.Rand) string {
		p.headers(1, p.good("x-id", id), false)
		p.write(frame(4, http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff"), frame(8, http2.FramePing, 0, 1, "12345678"))
		_, _ = io.Copy(io.Discard, p.conn)
		return "closed"
	}},
}

// say sends a message, and ends the client's side.
func (p *peer) say(stream uint32, what string) string {
	p.t.Helper()
	require.NoError(p.t, p.framer.WriteData(stream, true, message(what)))
	return "said, "
}

// ending reads a stream to its end, and returns what came. The windows that it gives are p.grant bytes at a time.
func (p *peer) ending(stream uint32) string {
	p.t.Helper()
	var data bytes.Buffer
	for {
		f, err := p.framer.ReadFrame()
		require.NoError(p.t, err, "after %d bytes", data.Len())
		if f.Header().StreamID != stream {
			continue
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			data.Write(f.Data())
			if p.grant > 0 && len(f.Data()) > 0 {
				require.NoError(p.t, p.framer.WriteWindowUpdate(stream, uint32(p.grant)))
				require.NoError(p.t, p.framer.WriteWindowUpdate(0, uint32(len(f.Data()))))
			}
		case *http2.RSTStreamFrame:
			return fmt.Sprintf("%d bytes, %v", data.Len(), f.ErrCode)
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				outcome := fmt.Sprintf("%d bytes %08x", data.Len(), crc32.ChecksumIEEE(data.Bytes()))
				for _, field := range f.Fields {
					if field.Name == "grpc-status" || field.Name == ":status" && field.Value != "200" {
						outcome += fmt.Sprintf(", %s %s", strings.TrimLeft(field.Name, ":"), field.Value)
					}
				}
				return outcome
			}
		}
	}
}
