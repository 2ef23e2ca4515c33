package exchange

import (
	"context"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/cache"
	"github.com/modelgate/modelgate/extproc/filters/keep"
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/passages/passed"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/turns"
)

type (
	// Env has the dependencies of exchanges.
	Env = call.Env
	// Config is everything that decisions about exchanges depend on.
	Config = call.Config
	// Ledger answers queries.
	Ledger = call.Ledger
	// Observer receives events that are counted but not part of a record.
	Observer = call.Observer
	// Tried knows how attempts ended that Envoy has tried again.
	Tried = call.Tried
)

// An Exchange is one HTTP request and its answer. One goroutine uses it at a time. Its methods are called in the order
// of the messages. Each returns Envoy's next step.
type Exchange struct {
	c       call.Call
	gateway string // whose clients may present certificates; empty: it is another
	state   state

	// The request.
	gzip    bool
	pending *passed.Passage // until the body to be signed is complete
	passage Passage         // nil: the request is planned, or none is sent
	queued  *Reply          // until it is the request's turn; nil: it does not wait
	account account.Account
	room    room.Room
	drained *drained // nil: no answer waits for the rest of the request
	keep    keep.Keep

	// The answer.
	answer    answer.Answer
	duplex    duplex
	further   *further          // nil: Envoy makes all attempts
	pipe      pipeline.Pipeline // in inStream and inUnary
	guarded   guarded
	turn      turns.Turn   // with guardrails
	cached    *cache.Cache // nil: no cache is configured
	replaying *replay      // of a kept stream; nil: the answer is sent at once

	sized [2]Header // of a whole body
}

// A Passage is what becomes of an admitted request.
type Passage interface {
	// Headers handles the headers of an answer that Envoy has got for the request.
	Headers(h Headers, status int, end bool) Reply
	// Body handles a piece of the answer.
	Body(ctx context.Context, piece []byte, end bool) Reply
	// Release is called by a timer, if a reply had Patience. It reports whether there is a reply.
	Release() (Reply, bool)
	// End is called when the exchange has ended, before its charge is settled.
	End()
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
	inStream  // a stream that is translated piece by piece
	inPassed  // an answer that passes unchanged, piece by piece
	inPassage // of a passage
	unseen    // the answer passes without being shown
	inUnary   // a complete answer
	inJudged  // a complete answer that passes if rules allow it
	inError   // a complete error
	inReplay  // a kept stream, piece by piece
	ended
)

// New returns an exchange that uses config until it ends.
func New(env *Env, config *Config) *Exchange {
	x := &Exchange{}
	x.c.Begin(env, config, (*driver)(x))
	x.account.Open(&x.c)
	x.answer.Open(&x.c, &x.account)
	return x
}

// NewInternal returns an exchange for a request of the job service. Only the job service reaches its listener, so its
// headers about the client are trusted.
func NewInternal(env *Env, config *Config) *Exchange {
	x := New(env, config)
	x.c.Internal, x.c.Record.Internal = true, true
	return x
}

// SetGateway tells the exchange which gateway the request came by. It is one whose clients may present certificates.
func (x *Exchange) SetGateway(name string) { x.gateway = name }

// Plan returns the plan that was sent with the reply to the request's body, or nil.
func (x *Exchange) Plan() *routing.Plan { return x.c.Active }

// Close ends the exchange after Envoy has closed the stream, and returns its record. An exchange that is not complete
// was cut, by the client or by the provider. Only Envoy knows by which of them, and whether an answer that it did not
// show was complete.
func (x *Exchange) Close() metering.Record {
	if x.drained != nil && x.drained.answer != nil { // the client did not get the answer
		x.endDrain()
	}
	defer x.keep.End(&x.c)
	defer x.cached.Close()
	switch {
	case x.state == ended:
		return x.c.Record
	case x.c.Unseen:
		x.c.Record.Unseen = true
	default:
		x.c.Record.Outcome = metering.OutcomeCut
		if x.state == inUnary && len(x.duplex.body) > 0 {
			x.salvage(x.duplex.body)
		}
		if x.duplex.head != nil { // the provider's status was not sent
			x.c.Record.Status = 0
		}
	}
	x.c.Finish()
	return x.c.Record
}

// A driver is an exchange as its call sees it.
type driver Exchange

// Sent implements call.Driver.
func (d *driver) Sent(piece []byte) {
	d.c.Record.Sent += int64(len(piece))
	d.keep.Answer(piece)
	d.cached.Answer(piece)
}

// Again implements call.Driver.
func (d *driver) Again(err error) (Reply, bool) { return tryAgain((*Exchange)(d), err) }

// Finish implements call.Driver.
func (d *driver) Finish() {
	x := (*Exchange)(d)
	x.state, x.c.Ended = ended, true
	x.c.Record.End = x.c.Env.Now()
	x.noteGuard()
	if x.passage != nil {
		x.passage.End()
	}
	readUsage(x)
	if x.c.Active != nil {
		x.c.Active.Release()
		x.c.Active.ReleasePlace()
		x.try()
	}
	x.room.Release()
	x.account.Settle()
	x.account.Leave()
	x.cached.End(x.c.HasBlocked())
}

// Chosen returns which rule of a policy has chosen the model, instead of which one, and the model. Both are empty if
// none has.
func (x *Exchange) Chosen() (policy, model string) {
	if x.c.Record.Policy == "" {
		return "", ""
	}
	return x.c.Record.Policy, x.c.Record.Model
}
