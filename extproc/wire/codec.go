// Package wire reads and writes the messages of Envoy's ext_proc protocol without the generated types. A request has
// four messages in each direction. With the generated types, reflection over maps and oneofs was a third of its cost.
package wire

import (
	"fmt"

	"github.com/modelgate/modelgate/extproc/carrier"
)

// A Message is a message of Envoy, which can be read.
type Message carrier.Message

// A Response is a message to Envoy, which can be written.
type Response carrier.Response

// Decode reads a message. Its body is a part of b.
func (m *Message) Decode(b []byte) error {
	if err := m.decode(b); err != nil {
		return fmt.Errorf("decode a message of Envoy's: %w", err)
	}
	return nil
}
