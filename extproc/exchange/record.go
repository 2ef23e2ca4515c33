package exchange

import (
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// An Outcome is how an exchange ended.
type Outcome string

// Outcomes. The four ends of a stream are told apart: finished, truncated, failed at the provider, and cut.
const (
	OutcomeFinished  Outcome = "finished"  // the answer was complete
	OutcomeRejected  Outcome = "rejected"  // by the gateway, before any provider was asked
	OutcomeFailed    Outcome = "failed"    // the provider answered with an error, also within a stream
	OutcomeTruncated Outcome = "truncated" // the body ended without the vendor's own end mark
	OutcomeGateway   Outcome = "gateway"   // Envoy answered: no provider could be reached in time
	OutcomeCut       Outcome = "cut"       // the connection of the client or of the provider ended
)

// A Record is what is kept of an exchange: enough for a log line and for metrics, and nothing of what was said.
type Record struct {
	ID        string // unique; empty where the request was refused at its headers
	RequestID string // what the client sees as x-request-id
	Start     time.Time
	FirstByte time.Time // of the answer's body; zero where none came
	End       time.Time

	Method, Path string
	KeyID        string
	Organization string
	Project      string
	Model        string // as the client named it, and only where it exists
	Provider     string // of the last attempt
	Upstream     string // the provider's own name of the model
	Attempts     int
	Stream       bool
	Status       int
	Sent         int64 // bytes of the answer's body, as handed to Envoy
	Usage        openai.Usage
	Outcome      Outcome
	Error        *openai.Error
}
