package exchange

import (
	"cmp"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/usage"
)

// An Env is what exchanges need from outside.
type Env struct {
	Now    func() time.Time
	Random func(n uint32) uint32 // in [0,n)
	NewID  func() string         // unique among exchanges, of this process and others

	Limits   limit.Limiter // nil: nothing is limited
	Spool    usage.Spool   // of records for the ledger; nil: there is none
	Ledger   Ledger        // nil: the ledger cannot be asked
	Observer Observer      // may be nil
	Tracer   trace.Tracer  // nil: no spans are made

	Bytes    *inflight.Bytes // of bodies that are held; nil: there is no bound
	Shedding func() bool     // whether the process has no memory left for what is new; nil: it always has

	Cooldown routing.Cooldown
	// Strangers bounds the answers to an address that has no good key; nil: nothing does.
	Strangers *access.Strangers

	gates  routing.Gates
	door   access.Door
	drains drains
	last   atomic.Pointer[derived]
}

// An Exchange is one HTTP request and its answer. It is used by one goroutine at a time. Its methods are called in the
// order in which the messages come; each returns what Envoy is to do.
type Exchange struct {
	env      *Env
	config   *Config
	internal bool // the job service asks
	places   bool // Envoy has clusters of providers by place
	state    state
	record   metering.Record

	// The request.
	dialect      *inbound.Dialect // the client's
	key          *access.Client
	operation    *inbound.Operation
	contentType  string
	gzip         bool
	wantsStream  bool
	includeUsage bool
	active       *routing.Plan
	pending      *passing // for a Route, until the body that is to be signed is there
	queued       Reply    // until it is the request's turn
	unread       bool     // the request's body passes
	charging     charging
	room         inflight.Hold // for the request's body, and then for the answer's
	drained      *drained      // nil: no answer waits for the rest of the request

	// The answer.
	answer routing.Answer
	by     *routing.Provider // who answers
	own    Headers           // of the gateway's, on any answer of a provider
	duplex duplex
	noRoom bool              // the answer cannot be held
	pipe   pipeline.Pipeline // of inStream and inUnary
	watch  metering.Watch    // of inPassed
	scrubs *scrubber         // of inScrubbed
	status int               // the provider's, of inError
	header http.Header       // likewise

	lastChunk time.Time // of a stream
}

// state is what an exchange waits for.
type state uint8

const (
	awaitRequest state = iota
	awaitBody
	awaitTurn
	awaitResponse
	inStream   // of an answer translated piece by piece
	inPassed   // of an answer that passes as it comes, piece by piece
	inScrubbed // likewise, and secrets are taken out of it
	unseen     // the answer passes without being shown
	inUnary    // the answer comes as one piece
	inError    // likewise, and it is an error
	ended
)

// New returns an exchange that is decided by config from its first message to its last.
func New(env *Env, config *Config) *Exchange {
	x := &Exchange{env: env, config: config, dialect: dialects.Default}
	x.record.Start = env.Now()
	return x
}

// NewInternal is New for a request of the job service, which alone reaches the listener that it came by: what its
// headers say about on whose behalf it asks is believed.
func NewInternal(env *Env, config *Config) *Exchange {
	x := New(env, config)
	x.internal, x.record.Internal = true, true
	return x
}

// HasPlaces says that Envoy has clusters of providers by place, as all do but those that an older control plane
// configures.
func (x *Exchange) HasPlaces() { x.places = true }

// Plan returns the plan that the reply to the request body carried, or nil.
func (x *Exchange) Plan() *routing.Plan { return x.active }

// Close ends the exchange when Envoy has closed its side, and returns what is to be recorded of it. An exchange that
// was not complete by then was cut: by the client, or by the provider's connection. Only Envoy knows which, and
// whether an answer that it did not show was.
func (x *Exchange) Close() metering.Record {
	if x.drained != nil && x.drained.answer != nil { // nobody got it
		x.endDrain()
	}
	switch x.state {
	case ended:
		return x.record
	case unseen:
		x.record.Unseen = true
	default:
		x.record.Outcome = metering.OutcomeCut
		if x.duplex.head != nil { // the provider's status never went out
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
	if !x.pipe.IsIdle() {
		x.record.Usage, x.charging.tier = x.pipe.Usage(), x.pipe.Tier()
	}
	if x.watch != nil {
		said := x.watch.Told()
		x.record.Usage, x.record.Upstream = said.Used, cmp.Or(x.record.Upstream, said.Model)
		x.charging.tier, x.charging.tally = said.Tier, said.Tally
		x.charging.tally.Whole = x.record.Outcome == metering.OutcomeFinished
	}
	if x.active != nil {
		x.active.Release()
		x.record.Retries = x.active.Leave()
	}
	x.room.Release()
	x.settle()
	x.leave()
}

// reject ends the exchange with an error for the client, which is the client's own mistake or the gateway's limit.
func (x *Exchange) reject(e *openai.Error, details string) Reply {
	x.record.Outcome, x.record.Status, x.record.Error = metering.OutcomeRejected, e.Status, e
	x.finish()
	return x.immediate(e.Status, e.Header(), x.dialect.AppendError(nil, e), details)
}

// immediate answers the client without asking a provider further. Every answer names the request.
func (x *Exchange) immediate(status int, h http.Header, body []byte, details string) Reply {
	if id := x.record.RequestID; id != "" {
		h.Set("X-Request-Id", id)
	}
	for _, told := range x.charging.told {
		h.Set(told.Name, told.Value)
	}
	x.record.Sent = int64(len(body))
	return Reply{Immediate: &Immediate{Status: status, Header: h, Body: body, Details: details}}
}
