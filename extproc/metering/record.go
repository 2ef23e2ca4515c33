package metering

import (
	"cmp"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/usage"
)

// An Outcome is how an exchange ended.
type Outcome string

// Outcomes. A stream has four different ends: finished, failed at the provider, truncated, and cancelled.
const (
	OutcomeFinished  Outcome = "finished"  // the answer was complete
	OutcomeRejected  Outcome = "rejected"  // an error of the client, found by the gateway or the provider
	OutcomeFailed    Outcome = "failed"    // the provider answered with an error, also inside a stream
	OutcomeTruncated Outcome = "truncated" // the provider's answer ended before it was complete
	OutcomeCancelled Outcome = "cancelled" // the client left before the answer was complete
	OutcomeGateway   Outcome = "gateway"   // Envoy answered: no provider was reachable in time
	// the connection of the client or of the provider ended; only Envoy knows which
	OutcomeCut Outcome = "cut"
)

// ByRequest is what a Record is refused by if the request itself is wrong.
const ByRequest = "request"

// AwaitsEnvoy reports whether only Envoy knows how the exchange ended, or what Envoy answered.
func (r *Record) AwaitsEnvoy() bool {
	return r.Outcome == OutcomeCut || r.Outcome == OutcomeGateway || r.Unseen || r.Rest != nil
}

// A Record describes an exchange for a log line and for metrics. It has no content.
type Record struct {
	ID         string // unique; empty if the request was refused at its headers and had no body
	RequestID  string // the client's x-request-id
	Start      time.Time
	FirstByte  time.Time // of the answer's body; zero if there was none
	FirstChunk time.Time // of a stream; zero if there was none
	End        time.Time

	Method, Path string
	Internal     bool   // from the job service
	Charge       string // the id of the job service under which a finished request is charged once; may be empty
	Again        bool   // the job service asks again where waiting may help
	// the requested operation: one of OpenAI's, "models", "files", "route", ..., or empty
	Operation string
	request.Subject
	Model        string // the client's name, if the model exists
	Label        string // name in metrics, from the configuration, or telemetry.Other; empty if Model is
	Provider     string // of the last attempt
	Vendor       string // of that provider
	Upstream     string // the provider's own name of the model
	Attempts     int
	Stream       bool
	Status       int   // 0 if only Envoy knows it
	Sent         int64 // bytes of the answer's body that Envoy got
	Dispatched   bool  // it was sent to a provider, and is in the ledger
	Usage        openai.Usage
	Images       int64 // number of generated images
	Estimated    bool  // a part of the usage is estimated
	Doubtful     bool  // the provider reported more than the model can do; Usage is bounded
	Cost         usage.Nano
	Priced       bool // there is a price
	PriceVersion string
	Outcome      Outcome
	Unseen       bool // the answer's body passed unseen: Outcome is right unless Envoy reports that it was cut
	Error        *openai.Error
	SentAt       time.Time     // to the first provider
	Tries        []Try         // of an exchange with several attempts
	Answered     int           // status of the last attempt's provider; 0: none
	Reason       string        // why the last attempt reached no provider, or was cut, as Envoy says
	Cool         time.Duration // how long the provider of the last attempt is left alone because of it
	RefusedBy    string        // the rule or object of the gateway that refused the request
	KeyHint      string        // the end of a key that is not known
	Barred       bool          // the key is known, and may not be used: it is disabled, expired or deleted
	Rules        []string      // limits and budgets of the reservation; they must not be modified
	Reserved     limit.Amounts // under each rule with the measure
	Settled      limit.Amounts // likewise
	Plan         []string      // the targets, if they are several
	Dropped      string        // the value of a header for the client; likewise the next two
	Adjusted     string
	UpstreamID   string
	Guards       guard.Findings // what guardrails have found; nil: nothing was looked for
	Cache        *Cache         // what the response cache did; nil: none is for the request
	Policy       string         // the rule that chose the model
	Fees         usage.Nano     // the part of Cost for tools of the vendor
	Rest         *Rest          // the last response of a session; nil: it is charged
	Span         trace.Span     // ends with the record; may be nil
}

// ErrorCode returns the code of the error that the client got, or its type if it has no code; empty: it got none.
func (r *Record) ErrorCode() string {
	if r.Error == nil {
		return ""
	}
	return cmp.Or(string(r.Error.Code), r.Error.Type)
}
