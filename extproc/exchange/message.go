package exchange

import (
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/message"
)

type (
	// Headers are the headers of a message.
	Headers = message.Headers
	// Header is one of them.
	Header = message.Header
	// Facts is what Envoy reports about an answer besides its headers.
	Facts = call.Facts
	// BodyMode is how Envoy sends a body.
	BodyMode = call.BodyMode
	// Reply tells Envoy what to do with a message.
	Reply = call.Reply
	// Names are what Envoy needs of an exchange.
	Names = call.Names
	// Immediate is a complete answer of the gateway.
	Immediate = call.Immediate
)

// Body modes.
const (
	Keep     = call.Keep
	None     = call.None
	Streamed = call.Streamed
	Buffered = call.Buffered
	Duplex   = call.Duplex
)
