// Package wire reads and writes the messages of Envoy's ext_proc protocol without the generated types. A request has
// four messages in each direction. With the generated types, reflection over maps and oneofs was a third of its cost.
package wire

import (
	"fmt"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
)

// A Codec reads and writes the messages of the ext_proc protocol. It leaves every other message to the standard codec.
type Codec struct{ encoding.CodecV2 }

// New returns the codec.
func New() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Phase identifies a message of Envoy, or the message that a reply answers.
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

// A Message has the used parts of a message of Envoy.
type Message struct {
	Phase   Phase
	End     bool
	Headers exchange.Headers // in the phases of headers
	Body    []byte           // in the phases of bodies
	Facts   exchange.Facts   // attributes, if Envoy sends them
	Request string           // the exchange's id, on the stream of an attempt
}

// A Response is a message to Envoy: a reply to a message of a phase, an attempt, or how long Envoy must wait for one
// of these, in whole seconds.
type Response struct {
	Phase    Phase
	Reply    *exchange.Reply
	Attempt  *routing.Attempt
	Patience time.Duration
}

// Unmarshal reads a message. The result does not share memory with data.
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
	if cap(out) != cap(*buffer) { // it has outgrown the buffer
		pool.Put(buffer)
		return mem.BufferSlice{mem.SliceBuffer(out)}, nil
	}
	*buffer = out
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}
