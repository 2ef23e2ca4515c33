package transport

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
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
	pseudo        pseudo
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
	b.stream, b.ends, b.regular, b.pseudo = stream, ends, false, 0
}

func (b *block) add(f hpack.HeaderField) {
	if b.size += f.Size(); b.size > maxHeaders {
		return
	}
	isPseudo := strings.HasPrefix(f.Name, ":")
	switch {
	case f.Name == "" || strings.ToLower(f.Name) != f.Name || ofConnection(f):
		b.malformed = true
	case isPseudo:
		b.malformed = !b.pseudo.add(f) || b.regular || b.malformed
	}
	b.regular = b.regular || !isPseudo
	b.fields = append(b.fields, f)
}

// ofConnection reports whether a field is one of a connection, which HTTP/2 does not have (RFC 9113, section 8.2.2).
func ofConnection(f hpack.HeaderField) bool {
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	case "te":
		return f.Value != "trailers"
	}
	return false
}

// A pseudo is the set of pseudo-headers that have come.
type pseudo uint8

const (
	pseudoMethod pseudo = 1 << iota
	pseudoScheme
	pseudoPath
	pseudoAuthority

	// pseudoRequired are those without which there is no request (RFC 9113, section 8.3.1).
	pseudoRequired = pseudoMethod | pseudoScheme | pseudoPath
)

// add adds a pseudo-header. It reports whether a request may have it.
func (p *pseudo) add(f hpack.HeaderField) bool {
	one := pseudo(0)
	switch f.Name {
	case ":method":
		one = pseudoMethod
	case ":scheme":
		one = pseudoScheme
	case ":path":
		one = pseudoPath
	case ":authority":
		one = pseudoAuthority
	}
	again := *p&one != 0
	*p |= one
	return one != 0 && !again && (f.Value != "" || one == pseudoAuthority)
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

// isRequest reports whether the fields may begin a stream. Of those that are too large, not all are known.
func (b *block) isRequest() bool {
	return b.tooLarge() || !b.malformed && b.pseudo&pseudoRequired == pseudoRequired
}

// isTrailers reports whether the fields may end a stream.
func (b *block) isTrailers() bool { return b.ends && !b.malformed && b.pseudo == 0 }

// tooLarge reports whether the fields exceed the limit. Fields beyond the limit are not stored.
func (b *block) tooLarge() bool { return b.size > maxHeaders }

// timeout returns the client's grpc-timeout, and whether there is one.
func timeout(h Headers) (d time.Duration, given bool, err error) {
	text := h.Get("grpc-timeout")
	if text == "" {
		return 0, false, nil
	}
	malformed := status.Errorf(codes.Internal, "malformed grpc-timeout %q", text)
	if len(text) < 2 || len(text) > 9 {
		return 0, false, malformed
	}
	unit, ok := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond,
		'u': time.Microsecond, 'n': time.Nanosecond}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if !ok || err != nil {
		return 0, false, malformed
	}
	return time.Duration(min(n, 1<<62/uint64(unit))) * unit, true, nil
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
