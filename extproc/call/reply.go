package call

import (
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/extproc/again"
	"github.com/modelgate/modelgate/extproc/message"
	"github.com/modelgate/modelgate/extproc/routing"
)

// Headers are the headers of a message.
type Headers = message.Headers

// A Header is one header of a message.
type Header = message.Header

// Facts is what Envoy reports about an answer besides its headers.
type Facts struct {
	Cluster     string // of the last attempt; empty: the plan's
	Attempts    int    // so far
	CodeDetails string // envoy.CodeDetailsUpstream, or the reason why Envoy itself answered
}

// A BodyMode is how Envoy sends a body to the ext_proc service.
type BodyMode uint8

// Body modes. Keep leaves the mode unchanged. A Duplex body arrives piece by piece and does not wait for replies, not
// even for the reply to the headers. Its mode never changes.
const (
	Keep BodyMode = iota
	None
	Streamed
	Buffered
	Duplex
)

// A Reply tells Envoy what to do with a message. It is valid until the exchange's next call. Every chunk of a stream
// copies some, so it is small.
type Reply struct {
	// Immediate ends the exchange: the client gets this answer.
	Immediate *Immediate

	Set    Headers
	Remove []string
	Body   []byte
	// ReplaceBody replaces the received body by Body.
	ReplaceBody bool
	// Wait means that there is no reply yet: the headers of an answer wait for content of its Duplex body. Patience, if
	// not 0, bounds the wait of the headers, or of an answer for a body that drains. After that time Release is called.
	Wait bool
	// Hold, in the reply of a passage to the headers of a Duplex answer, has them wait for its content.
	Hold bool
	// Piece sends Body, if it is not empty, as the next piece of a Duplex body to the client. End marks the last piece.
	// If the reply to the headers waited, it is sent first, as Head.
	Piece bool
	End   bool
	// PassRequest, in the reply to request headers, passes the request's body without showing it. In a later reply it
	// means that the body passes.
	PassRequest bool
	// Queue replaces the reply to a request's body: the caller then calls Turn, which returns the reply, or Queue again.
	Queue bool
	// ResponseBody is the mode for the rest of the answer.
	ResponseBody BodyMode
	// Drain, in the reply to request headers, makes Envoy send the request's body piece by piece. Nothing is forwarded.
	Drain bool
	// Log makes Envoy's access log report the exchange in any case, because its end will not be shown.
	Log      bool
	Patience time.Duration
	Head     *Reply
	// Again is a further attempt, which the caller makes. ResponseHeaders and ResponseBody get its answer from then on.
	// If there is none, or it breaks off, Broken is called. What Envoy shows besides is ignored.
	Again *again.Request
	// Names, in the reply to request headers, identify the exchange from now on.
	Names *Names
	// Plan, in the reply to a request's body, makes Envoy select the route again. If the body passes, it is in the reply
	// to the headers.
	Plan *routing.Plan
}

// Names are what Envoy's access log and Envoy's own errors need of an exchange.
type Names struct {
	ID        string
	Dialect   string // the client's
	RequestID string // the x-request-id
}

// An Immediate is a complete answer of the gateway.
type Immediate struct {
	Status int
	Header http.Header
	Body   []byte
	// Details is the reason in Envoy's access log.
	Details string
}

// MediaType returns the media type of a content-type header, without its parameters.
func MediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
