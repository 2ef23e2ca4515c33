package eventstream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/recordings"
)

// result is what came out of a decoder, in a form that can be compared.
type result struct {
	Payloads []string
	Types    []string
	Err      error
	Rest     bool
}

// decode feeds the pieces and collects everything. Each piece is overwritten after use, as a caller's buffer would be.
func decode(limit int, pieces ...[]byte) result {
	d := Decoder{Limit: limit}
	var r result
	for _, p := range pieces {
		p = bytes.Clone(p)
		d.Feed(p)
		for i := range p {
			p[i] = '#'
		}
		for {
			f, ok, err := d.Next()
			if err != nil {
				r.Err = err
				return r
			}
			if !ok {
				break
			}
			r.Payloads = append(r.Payloads, string(f.Payload))
			r.Types = append(r.Types, string(f.Header(":event-type")))
		}
	}
	r.Rest = d.Rest()
	return r
}

// frame builds a frame with the event type and the payload.
func frame(eventType, payload string) []byte {
	var headers []byte
	if eventType != "" {
		headers = append(headers, byte(len(":event-type")))
		headers = append(headers, ":event-type\x07"...)
		headers = binary.BigEndian.AppendUint16(headers, uint16(len(eventType)))
		headers = append(headers, eventType...)
	}
	return build(headers, payload)
}

func build(headers []byte, payload string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func TestFramesComeOutWhereverTheStreamIsCut(t *testing.T) {
	stream := bytes.Join([][]byte{frame("a", "one"), frame("", ""), frame("b", "three"), frame("c", "cut")[:20]}, nil)
	want := result{Payloads: []string{"one", "", "three"}, Types: []string{"a", "", "b"}, Rest: true}
	require.Equal(t, want, decode(0, stream))
	require.Equal(t, want, decode(0, bytes.SplitAfter(stream, nil)...), "one byte at a time")
	for i := range stream {
		require.Equal(t, want, decode(0, stream[:i], stream[i:]), "cut at %d", i)
		for j := i; j < len(stream); j++ {
			require.Equal(t, want, decode(0, stream[:i], stream[i:j], stream[j:]), "cut at %d and %d", i, j)
		}
	}
}

func TestWhatCannotBeAFrameIsAnErrorForGood(t *testing.T) {
	good := frame("a", "payload")
	changed := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	lengths := func(size, headers uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, size)
		b = binary.BigEndian.AppendUint32(b, headers)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"length":                    {changed(3), ErrPrelude},
		"headers' length":           {changed(7), ErrPrelude},
		"prelude checksum":          {changed(8), ErrPrelude},
		"header":                    {changed(14), ErrChecksum},
		"payload":                   {changed(len(good) - 5), ErrChecksum},
		"checksum":                  {changed(len(good) - 1), ErrChecksum},
		"beyond the limit":          {lengths(65, 0), ErrLength},
		"no room for the headers":   {lengths(40, 25), ErrLength},
		"headers beyond the limit":  {lengths(1<<20, 128<<10+1), ErrLength},
		"shorter than its frame":    {lengths(15, 0), ErrLength},
		"a length that overflows":   {lengths(20, 0xfffffff8), ErrLength},
		"a header without a name":   {build([]byte("\x00\x00"), ""), ErrHeaders},
		"a header without a type":   {build([]byte("\x01a"), ""), ErrHeaders},
		"a header of unknown type":  {build([]byte("\x01a\x0a"), ""), ErrHeaders},
		"a string without length":   {build([]byte("\x01a\x07\x00"), ""), ErrHeaders},
		"a string that is cut":      {build([]byte("\x01a\x07\x00\x02x"), ""), ErrHeaders},
		"a name beyond the headers": {build([]byte("\x09a\x00"), ""), ErrHeaders},
	} {
		t.Run(name, func(t *testing.T) {
			limit := 64
			if name == "headers beyond the limit" {
				limit = 0
			}
			d := Decoder{Limit: limit}
			d.Feed(good)
			d.Feed(c.stream)
			d.Feed(good)
			_, ok, err := d.Next()
			require.NoError(t, err)
			require.True(t, ok, "what came before is good")
			for range 2 {
				_, ok, err = d.Next()
				require.ErrorIs(t, err, c.want)
				require.False(t, ok)
				d.Feed(good)
			}
			require.Equal(t, c.want, decode(limit, bytes.SplitAfter(c.stream, nil)...).Err)
		})
	}
}

func TestAFrameBeyondTheLimitIsRefusedBeforeItHasCome(t *testing.T) {
	require.Equal(t, ErrLength, decode(64, frame("", string(make([]byte, 49)))[:12]).Err)
	require.Len(t, decode(64, frame("", string(make([]byte, 48)))).Payloads, 1)
}

func TestAStreamAtRestHoldsNoLargeBuffer(t *testing.T) {
	var d Decoder
	d.Feed(frame("", string(make([]byte, 1<<20))))
	_, ok, err := d.Next()
	require.NoError(t, err)
	require.True(t, ok)
	d.Feed(frame("", "small"))
	require.LessOrEqual(t, cap(d.buf), keep)
}

// TestVectors decodes AWS's own test vectors.
func TestVectors(t *testing.T) {
	vectors := recordings.Of(t, "eventstream-vectors")
	wantErrors := map[string]error{
		"corrupted_header_len": ErrPrelude, "corrupted_length": ErrPrelude, "corrupted_headers": ErrChecksum,
		"corrupted_payload": ErrChecksum,
	}
	for _, name := range recordings.Glob(t, vectors, "encoded/negative/*") {
		require.ErrorIs(t, decode(0, recordings.Read(t, vectors, name)).Err, wantErrors[path.Base(name)], name)
	}
	for _, name := range recordings.Glob(t, vectors, "encoded/positive/*") {
		decoded := recordings.Read(t, vectors, "decoded/positive/"+path.Base(name))
		requireVector(t, recordings.Read(t, vectors, name), decoded)
	}
}

func requireVector(t *testing.T, encoded, decoded []byte) {
	t.Helper()
	var want struct {
		Payload []byte `json:"payload"`
		Headers []struct {
			Name  string          `json:"name"`
			Type  byte            `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"headers"`
	}
	require.NoError(t, json.Unmarshal(decoded, &want))
	var d Decoder
	d.Feed(encoded)
	f, ok, err := d.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.False(t, d.Rest())
	require.Equal(t, want.Payload, append([]byte{}, f.Payload...))
	rest := f.headers
	for _, h := range want.Headers {
		got, n := readHeader(rest)
		require.Equal(t, h.Name, string(got.name))
		require.Equal(t, h.Type, got.kind)
		rest = rest[n:]
		if h.Type != kindString {
			require.Nil(t, f.Header(h.Name), "only strings are given")
			continue
		}
		var text string
		require.NoError(t, json.Unmarshal(h.Value, &text))
		value, err := base64.StdEncoding.DecodeString(text)
		require.NoError(t, err)
		require.Equal(t, value, f.Header(h.Name))
	}
	require.Empty(t, rest)
}

func FuzzDecode(f *testing.F) {
	f.Add(frame("messageStart", `{"role":"assistant"}`), uint16(3))
	f.Add(append(frame("", ""), frame("x", "y")...), uint16(14))
	f.Add(build([]byte("\x01a\x00\x01b\x09"), "0123456789abcdef"), uint16(1))
	f.Fuzz(func(t *testing.T, stream []byte, at uint16) {
		whole := decode(1<<16, stream)
		i := min(int(at), len(stream))
		require.Equal(t, whole, decode(1<<16, stream[:i], stream[i:]))
		require.Equal(t, whole, decode(1<<16, bytes.SplitAfter(stream, nil)...))
	})
}

func BenchmarkNext(b *testing.B) {
	stream := frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" Hello there"},"p":"abcdefghijklmnop"}`)
	var d Decoder
	b.ReportAllocs()
	for b.Loop() {
		d.Feed(stream)
		f, ok, err := d.Next()
		if !ok || err != nil || len(f.Header(":event-type")) == 0 {
			b.Fatal(err)
		}
	}
}
