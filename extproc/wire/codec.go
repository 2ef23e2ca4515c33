// Package wire reads and writes the messages of Envoy's ext_proc protocol. They go without the generated types: a
// request is four messages each way, and with the generated types, reflection over maps and oneofs was a third of what
// a request cost here.
package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
)

// A Codec reads and writes the messages of the ext_proc protocol without the generated types. Every other message is
// left to the standard codec.
type Codec struct{ encoding.CodecV2 }

// New returns the codec.
func New() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Phase is which message of Envoy's it is, and which is answered.
type Phase uint8

// The phases.
const (
	Unknown Phase = iota
	RequestHeaders
	RequestBody
	ResponseHeaders
	ResponseBody
	ResponseTrailers
	RequestTrailers
)

// A Message is what Envoy says, as far as it is acted on.
type Message struct {
	Phase   Phase
	End     bool
	Headers exchange.Headers // of the two phases that have some
	Body    []byte           // of the two others
	Facts   exchange.Facts   // attributes, where Envoy sends them
	Request string           // the exchange's id, on the stream of an attempt
}

// A Response is what Envoy is told: a reply to a message of a phase, or an attempt.
type Response struct {
	Phase   Phase
	Reply   *exchange.Reply
	Attempt *routing.Attempt
}

// Unmarshal reads a message. What it holds is its own.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	return m.Decode(data.Materialize())
}

// Decode reads a message. Its body is a part of b.
func (m *Message) Decode(b []byte) error {
	if err := m.decode(b); err != nil {
		return fmt.Errorf("decode a message of Envoy's: %w", err)
	}
	return nil
}

// Marshal writes a response.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*Response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(r.size())
	out := r.Append((*buffer)[:0])
	if cap(out) != cap(*buffer) { // it has grown beyond the buffer
		pool.Put(buffer)
		return mem.BufferSlice{mem.SliceBuffer(out)}, nil
	}
	*buffer = out
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}
