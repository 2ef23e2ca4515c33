package metering

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// An Outcome is how an exchange ended.
type Outcome string

// Outcomes. The four ends of a stream are told apart: finished, failed at the provider, truncated, and cancelled.
const (
	OutcomeFinished  Outcome = "finished"  // the answer was complete
	OutcomeRejected  Outcome = "rejected"  // a mistake of the client's, which the gateway or the provider has found
	OutcomeFailed    Outcome = "failed"    // the provider answered with an error, also within a stream
	OutcomeTruncated Outcome = "truncated" // the provider's answer ended before it was complete
	OutcomeCancelled Outcome = "cancelled" // the client left before the answer was complete
	OutcomeGateway   Outcome = "gateway"   // Envoy answered: no provider could be reached in time
	// the connection of the client or of the provider ended; only Envoy knows which
	OutcomeCut Outcome = "cut"
)

// Open reports whether only Envoy knows how the exchange ended, or what it answered itself.
func (r *Record) Open() bool {
	return r.Outcome == OutcomeCut || r.Outcome == OutcomeGateway || r.Unseen
}

// A Record is what is kept of an exchange: enough for a log line and for metrics, and nothing of what was said.
type Record struct {
	ID         string // unique; empty where the request was refused at its headers, and had no body
	RequestID  string // what the client sees as x-request-id
	Start      time.Time
	FirstByte  time.Time // of the answer's body; zero where none came
	FirstChunk time.Time // the first event of a stream; likewise
	End        time.Time

	Method, Path string
	Internal     bool   // the job service asked
	Charge       string // the id under which it is charged, once, where the job service has given one
	// what was asked for: an operation of OpenAI's, "models", "files", "route", ..., or nothing that exists
	Operation    string
	KeyID        string
	Organization string
	Project      string
	Model        string // as the client named it, and only where it exists
	Label        string // what metrics call it: a name of the configuration's, or telemetry.Other; empty where Model is
	Provider     string // of the last attempt
	Vendor       string // of that provider
	Upstream     string // the provider's own name of the model
	Attempts     int
	Stream       bool
	Status       int    // 0 where only Envoy knows it
	Sent         int64  // bytes of the answer's body, as handed to Envoy
	Out          bool   // it went out to a provider, and is in the ledger
	User         string // as the request names who asks, at most 256 bytes
	Usage        openai.Usage
	Images       int64 // that were made
	Estimated    bool  // not all of the usage is what the provider reported
	Cost         usage.Nano
	Priced       bool // there is a price
	PriceVersion string
	Unusable     bool // a provider has answered, and bills it, but not so that the client could be told
	Outcome      Outcome
	Unseen       bool // the answer's body passed unseen: Outcome holds unless Envoy says that it was cut
	Error        *openai.Error
	Retries      []Retry
	Span         trace.Span // that is to be ended with the record; nil: there is none
}

// A Retry is an attempt after the first.
type Retry struct {
	At       time.Time
	Provider string
}
