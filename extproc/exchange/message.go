package exchange

import (
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/extproc/message"
	"github.com/modelgate/modelgate/extproc/routing"
)

// Headers are those of a message.
type Headers = message.Headers

// A Header is one of them.
type Header = message.Header

// Facts is what Envoy says of an answer besides its headers.
type Facts struct {
	Cluster     string // of the last attempt
	Attempts    int    // made so far
	CodeDetails string // envoy.CodeDetailsUpstream, or why Envoy itself answered
}

// A BodyMode says how Envoy sends a body to the ext_proc service.
type BodyMode uint8

// Body modes. Keep means that the mode does not change. A Duplex body comes piece by piece without waiting for
// replies, also for the one to the headers, and never changes to another mode.
const (
	Keep BodyMode = iota
	None
	Streamed
	Buffered
	Duplex
)

// A Reply is what Envoy is to do with the message it was given.
type Reply struct {
	// Immediate ends the exchange: the client gets this and nothing goes further.
	Immediate *Immediate

	Set    Headers
	Remove []string
	// ReplaceBody makes Body the body in place of what came. Body is the exchange's until its next call.
	ReplaceBody bool
	Body        []byte
	// ResponseBody is how the rest of the answer is to be sent.
	ResponseBody BodyMode
	// Wait is no reply yet: the headers of an answer wait for what its Duplex body says. Patience, where it is not 0, is
	// how long they may, or how long an answer may wait for a body that drains; then Release is called.
	Wait     bool
	Patience time.Duration
	// Piece makes Body the next that the client gets of a Duplex body, where it is not empty, and End says that it is the
	// last. The reply to the headers, if they have waited, goes before it.
	Piece bool
	End   bool
	Head  *Reply
	// Queue, in place of a reply to a request's body, has Turn called, which returns the reply.
	Queue bool
	// PassRequest, in the reply to request headers, has the request's body pass without being shown. In a later reply it
	// says that this is so.
	PassRequest bool
	// Drain, in the reply to request headers, has the request's body come piece by piece, and go nowhere.
	Drain bool
	// Log has Envoy's access log tell of the exchange in any case: its end will not be shown.
	Log bool
	// ID, in the reply to request headers, is what the exchange is known by from now on, to Envoy's access log too.
	ID string
	// Plan, in the reply to a request's body, or to its headers where the body passes, has Envoy route anew.
	Plan *routing.Plan
}

// An Immediate is a complete answer made by the gateway.
type Immediate struct {
	Status int
	Header http.Header
	Body   []byte
	// Details names the reason in Envoy's access log.
	Details string
}

// mediaType returns the media type of a content-type header, without its parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
