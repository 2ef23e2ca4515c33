package extproc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/modelgate/modelgate/extproc/exchange"
)

// A codec reads and writes the messages of the ext_proc protocol without the generated types. Every other message is left to
// the standard codec.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// phase is which message of Envoy's it is, and which is answered.
type phase uint8

const (
	phaseUnknown phase = iota
	phaseRequestHeaders
	phaseRequestBody
	phaseResponseHeaders
	phaseResponseBody
	phaseResponseTrailers
	phaseRequestTrailers
)

// A message is what Envoy says, as far as it is acted on.
type message struct {
	phase   phase
	end     bool
	headers exchange.Headers // of the two phases that have some
	body    []byte           // of the two others
	facts   exchange.Facts   // attributes, where Envoy sends them
	request string           // the exchange's id, on the stream of an attempt
}

// A response is what Envoy is told: a reply to a message of a phase, or an attempt.
type response struct {
	phase   phase
	reply   *exchange.Reply
	attempt *exchange.Attempt
}

// Unmarshal reads a message. What it holds is its own.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if err := m.decode(data.Materialize()); err != nil {
		return fmt.Errorf("decode a message of Envoy's: %w", err)
	}
	return nil
}

// Marshal writes a response.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(r.size())
	out := r.append((*buffer)[:0])
	if cap(out) != cap(*buffer) { // it has grown beyond the buffer
		pool.Put(buffer)
		return mem.BufferSlice{mem.SliceBuffer(out)}, nil
	}
	*buffer = out
	return mem.BufferSlice{mem.NewBuffer(buffer, pool)}, nil
}
