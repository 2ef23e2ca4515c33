package carrier

import (
	"time"

	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
)

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

// A Message is what Envoy shows of a request or of its answer.
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
	// Typed means that Envoy takes a plan as a typed message, which costs it less than one of names and values.
	Typed bool
}
