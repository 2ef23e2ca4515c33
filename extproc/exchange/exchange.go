package exchange

import (
	"cmp"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/turns"
	"github.com/modelgate/modelgate/internal/usage"
)

// An Env has the dependencies of exchanges.
type Env struct {
	Now    func() time.Time
	Random func(n uint32) uint32 // in [0,n)
	NewID  func() string         // unique over all processes

	Limits   limit.Limiter  // nil: no limits
	Spool    usage.Spool    // of records for the ledger; may be nil
	Ledger   Ledger         // may be nil
	Observer Observer       // may be nil
	Tried    Tried          // may be nil
	Tracer   trace.Tracer   // nil: no spans
	Bodies   *bodies.Keeper // of requests and answers that are kept; may be nil

	Bytes    *inflight.Bytes // bounds the bodies that are held; nil: no bound
	Turns    *turns.Turns    // bounds the requests on which guardrails work for long; nil: no bound
	Shedding func() bool     // whether the process lacks memory for new requests; nil: never

	// Current returns the newest configuration, against which sessions check their keys. Nil: keys are not checked again.
	Current func() *Config
	// Parts receives the records of the parts of sessions. It may be nil.
	Parts func(metering.Record)

	Cooldown routing.Cooldown
	// Strangers limits the answers to an address without a valid key. It may be nil.
	Strangers *access.Strangers

	gates  routing.Gates
	door   access.Door
	drains drains
	last   atomic.Pointer[derived]
}

// An Exchange is one HTTP request and its answer. One goroutine uses it at a time. Its methods are called in the order
// of the messages. Each returns Envoy's next step.
type Exchange struct {
	env       *Env
	config    *Config
	internal  bool   // the request comes from the job service
	hasPlaces bool   // Envoy has clusters of providers by place
	gateway   string // whose clients may present certificates; empty: it is another
	state     state
	record    metering.Record

	// The request.
	dialect      *inbound.Dialect // the client's
	key          *access.Client
	operation    *inbound.Operation
	head         inbound.Head
	request      request.Request
	gzip         bool
	wantsStream  bool
	includeUsage bool
	echo         []byte        // see chat.Asked
	facts        *policy.Facts // for expressions; nil: none has asked
	offers       offers        // what the request has the vendor do
	active       *routing.Plan
	pending      *passing // the request of a Route, until the body to be signed is complete
	queued       Reply    // until it is the request's turn
	unread       bool     // the request's body passes without being shown
	charging     charging
	room         inflight.Hold   // for the request's body, and then for the answer's
	drained      *drained        // nil: no answer waits for the rest of the request
	kept         *bodies.Capture // of the bodies; nil: they are not kept

	// The answer.
	answer         routing.Answer
	provider       *routing.Provider // the provider that answers
	gatewayHeaders Headers           // headers of the gateway on every answer of a provider
	duplex         duplex
	noRoom         bool              // there is no room for the answer
	pipe           pipeline.Pipeline // in inStream and inUnary
	guarded        guarded
	turn           turns.Turn     // with guardrails
	cached         *cached        // nil: no cache is configured
	watch          metering.Watch // in inPassed
	scrubber       *scrubber      // in inScrubbed
	session        *live          // of the Realtime API; nil: the request is for something else
	status         int            // the provider's status, in inError
	header         http.Header    // the provider's headers, in inError

	lastChunk time.Time // time of a stream's last chunk

	// Room of most replies.
	removed [16]string // of the headers of the request, and then of the answer
	sized   [2]Header  // of a whole body
}

// state is the message that an exchange waits for.
type state uint8

const (
	awaitRequest state = iota
	awaitBody
	awaitGuards
	awaitChecks
	awaitCached
	awaitTurn
	awaitResponse
	inStream   // a stream that is translated piece by piece
	inPassed   // an answer that passes unchanged, piece by piece
	inScrubbed // an answer that passes without the secrets in it
	unseen     // the answer passes without being shown
	inUnary    // a complete answer
	inJudged   // a complete answer that passes if rules allow it
	inError    // a complete error
	inSession  // the frames of a session
	inReplay   // a kept stream, piece by piece
	ended
)

// New returns an exchange that uses config until it ends.
func New(env *Env, config *Config) *Exchange {
	x := &Exchange{env: env, config: config, dialect: dialects.Default}
	x.record.Start = env.Now()
	return x
}

// NewInternal returns an exchange for a request of the job service. Only the job service reaches its listener, so its
// headers about the client are trusted.
func NewInternal(env *Env, config *Config) *Exchange {
	x := New(env, config)
	x.internal, x.record.Internal = true, true
	return x
}

// SetPlaces tells the exchange that Envoy has clusters of providers by place. Only an old control plane does not
// configure them.
func (x *Exchange) SetPlaces() { x.hasPlaces = true }

// SetGateway tells the exchange which gateway the request came by. It is one whose clients may present certificates.
func (x *Exchange) SetGateway(name string) { x.gateway = name }

// Plan returns the plan that was sent with the reply to the request's body, or nil.
func (x *Exchange) Plan() *routing.Plan { return x.active }

// Close ends the exchange after Envoy has closed the stream, and returns its record. An exchange that is not complete
// was cut, by the client or by the provider. Only Envoy knows by which of them, and whether an answer that it did not
// show was complete.
func (x *Exchange) Close() metering.Record {
	if x.drained != nil && x.drained.answer != nil { // the client did not get the answer
		x.endDrain()
	}
	defer x.endKept()
	defer x.closeCached()
	switch x.state {
	case ended:
		return x.record
	case unseen:
		x.record.Unseen = true
	default:
		x.record.Outcome = metering.OutcomeCut
		if x.state == inUnary && len(x.duplex.body) > 0 {
			x.salvage(x.duplex.body)
		}
		if x.duplex.head != nil { // the provider's status was not sent
			x.record.Status = 0
		}
	}
	x.finish()
	return x.record
}

// finish ends the exchange.
func (x *Exchange) finish() {
	x.state = ended
	x.record.End = x.env.Now()
	x.noteGuard()
	if !x.pipe.IsIdle() {
		x.record.Usage, x.charging.tier = x.pipe.Usage(), x.pipe.Tier()
	}
	if x.watch != nil {
		said := x.watch.Report()
		x.record.Usage, x.record.Upstream = said.Used, cmp.Or(x.record.Upstream, said.Model)
		x.charging.tier, x.charging.tally, x.charging.said = said.Tier, said.Tally, said.Said
		x.charging.tally.Complete = x.record.Outcome == metering.OutcomeFinished
	}
	if x.active != nil {
		x.active.Release()
		x.active.ReleasePlace()
		x.try()
	}
	x.room.Release()
	if x.session != nil {
		x.chargeRest()
	}
	x.settle()
	x.leave()
	x.endCached()
}

// begun adds to the reply to the request's headers what Envoy has to know of the exchange.
func (x *Exchange) begun(r Reply) Reply {
	r.ID, r.Dialect, r.RequestID = x.record.ID, x.dialect.Name, x.record.RequestID
	return r
}

// reject ends the exchange with an error that the client or a limit of the gateway has caused.
func (x *Exchange) reject(e *openai.Error, details string) Reply {
	x.record.Outcome, x.record.Status, x.record.Error = metering.OutcomeRejected, e.Status, e
	x.record.RefusedBy = cmp.Or(x.record.RefusedBy, x.refuser(e))
	x.finish()
	return x.immediate(e.Status, e.Header(), x.errorBody(e), details)
}

// errorBody returns the body of an error, in the client's dialect.
func (x *Exchange) errorBody(e *openai.Error) []byte {
	of := *e
	of.RequestID = x.record.RequestID
	return x.dialect.AppendError(nil, &of)
}

// immediate answers the client and asks no further provider. Every answer has the request's id.
func (x *Exchange) immediate(status int, h http.Header, body []byte, details string) Reply {
	if id := x.record.RequestID; id != "" {
		h.Set("X-Request-Id", id)
		if name := x.dialect.RequestIDHeader; name != "" {
			h.Set(name, id)
		}
	}
	for _, told := range x.charging.limitHeaders {
		h.Set(told.Name, told.Value)
	}
	x.record.Sent = 0
	x.sent(body)
	return Reply{Immediate: &Immediate{Status: status, Header: h, Body: body, Details: details}}
}
