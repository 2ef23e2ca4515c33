package exchange

import (
	"strings"

	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/message"
)

// The types of messages.
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

// mediaType returns the media type of a content-type header, without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
