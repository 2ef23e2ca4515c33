package transport

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/status"
)

// Headers are the headers of a request, in their order: the gRPC metadata of a stream.
type Headers []hpack.HeaderField

// Get returns the first value of a header, or "".
func (h Headers) Get(name string) string {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value
		}
	}
	return ""
}

const (
	// maxHeaders bounds the headers of a stream in bytes, counted as for SETTINGS_MAX_HEADER_LIST_SIZE, and also the
	// bytes of their frames.
	maxHeaders = 64 << 10
	// maxContinuations bounds the CONTINUATION frames of a header block.
	maxContinuations = 16
)

// A block decodes a header block frame by frame, because the connection's table depends on each frame.
type block struct {
	decoder       *hpack.Decoder
	fields        Headers
	size          uint32 // of the fields
	bytes         int    // of the frames
	continuations int
	stream        uint32
	ends          bool // the client's side of the stream ends with the block
	regular       bool // a regular field has come after the pseudo-headers
	malformed     bool
}

func newBlock() *block {
	b := &block{}
	b.decoder = hpack.NewDecoder(4096, b.add)
	b.decoder.SetMaxStringLength(maxHeaders)
	return b
}

func (b *block) begin(stream uint32, ends bool) {
	clear(b.fields)
	b.fields, b.size, b.bytes, b.continuations, b.malformed = b.fields[:0], 0, 0, 0, false
	b.stream, b.ends, b.regular = stream, ends, false
}

func (b *block) add(f hpack.HeaderField) {
	if b.size += f.Size(); b.size > maxHeaders {
		return
	}
	pseudo := strings.HasPrefix(f.Name, ":")
	if f.Name == "" || strings.ToLower(f.Name) != f.Name || pseudo && b.regular {
		b.malformed = true
	}
	b.regular = b.regular || !pseudo
	b.fields = append(b.fields, f)
}

// take decodes a fragment. An error ends the connection.
func (b *block) take(fragment []byte, last bool) error {
	if b.bytes += len(fragment); b.bytes > maxHeaders {
		return fmt.Errorf("a header block of more than %d bytes", maxHeaders)
	}
	if _, err := b.decoder.Write(fragment); err != nil {
		return err
	}
	if last {
		return b.decoder.Close()
	}
	return nil
}

// tooLarge reports whether the fields exceed the limit. Fields beyond the limit are not stored.
func (b *block) tooLarge() bool { return b.size > maxHeaders }

// timeout returns the client's grpc-timeout, or 0.
func timeout(h Headers) time.Duration {
	text := h.Get("grpc-timeout")
	if len(text) < 2 || len(text) > 9 {
		return 0
	}
	unit, ok := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond,
		'u': time.Microsecond, 'n': time.Nanosecond}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if !ok || err != nil {
		return 0
	}
	return time.Duration(min(n, 1<<62/uint64(unit))) * unit
}

// responseHeaders are :status 200 and content-type application/grpc, by indexes of HPACK's static table.
var responseHeaders = append([]byte{0x88, 0x0f, 0x10, byte(len("application/grpc"))}, "application/grpc"...)

// appendTrailers appends a block with the status of an error; nil is OK.
func appendTrailers(b []byte, err error) []byte {
	s := status.Convert(err)
	b = appendLiteral(b, "grpc-status", strconv.Itoa(int(s.Code())))
	if m := s.Message(); m != "" {
		b = appendLiteral(b, "grpc-message", percentEncode(m))
	}
	return b
}

// appendLiteral appends a field without indexing and without Huffman code.
func appendLiteral(b []byte, name, value string) []byte {
	b = append(b, 0)
	b = append(hpack7(b, len(name)), name...)
	return append(hpack7(b, len(value)), value...)
}

// hpack7 appends a length as an integer with a prefix of seven bits.
func hpack7(b []byte, n int) []byte {
	if n < 127 {
		return append(b, byte(n))
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}

// percentEncode encodes a text for grpc-message.
func percentEncode(s string) string {
	const most = 4 << 10
	var b strings.Builder
	for i := range min(len(s), most) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
