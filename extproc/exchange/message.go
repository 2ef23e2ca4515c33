package exchange

import (
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/message"
)

// Headers, and the other types of messages.
type (
	Headers   = message.Headers
	Header    = message.Header
	Facts     = call.Facts
	BodyMode  = call.BodyMode
	Reply     = call.Reply
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
