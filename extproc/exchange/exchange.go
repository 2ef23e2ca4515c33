package exchange

import (
	"context"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/chain"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
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
	account account.Account
	answer  answer.Answer

	chain   chain.Chain
	drained *drained // nil: no answer waits for the rest of the request

	duplex duplex
}

// New returns an exchange that uses config until it ends.
func New(env *Env, config *Config) *Exchange {
	x := &Exchange{}
	x.c.Begin(env, config, (*driver)(x))
	x.account.Open(&x.c)
	x.answer.Open(&x.c, &x.account)
	x.chain.Open(&x.c, &x.answer)
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
func (x *Exchange) SetGateway(name string) { x.c.Gateway = name }

// Plan returns the plan that was sent with the reply to the request's body, or nil.
func (x *Exchange) Plan() *routing.Plan { return x.c.Active }

// RequestHeaders handles the headers of a request. The context ends with the exchange.
func (x *Exchange) RequestHeaders(ctx context.Context, h Headers, end bool) Reply {
	return x.chain.Headers(ctx, h, end)
}

// RequestBody handles the complete body of a request, plans its attempts, and reserves the expected usage. The context
// ends with the exchange.
func (x *Exchange) RequestBody(ctx context.Context, body []byte) Reply {
	return x.chain.Body(ctx, body)
}

// Turn is called after a reply with Queue. It waits for what filters wait for, and returns the reply. The context ends
// when the client leaves.
func (x *Exchange) Turn(ctx context.Context) Reply {
	return x.chain.Turn(ctx)
}

// Close ends the exchange after Envoy has closed the stream, and returns its record. An exchange that is not complete
// was cut, by the client or by the provider. Only Envoy knows by which of them, and whether an answer that it did not
// show was complete.
func (x *Exchange) Close() metering.Record {
	if x.drained != nil && x.drained.answer != nil { // the client did not get the answer
		x.endDrain()
	}
	switch {
	case x.c.Ended:
	case x.c.Unseen:
		x.c.Record.Unseen = true
		x.c.Finish()
	default:
		x.c.Record.Outcome = metering.OutcomeCut
		if x.c.HeadWaits { // the provider's status was not sent
			x.c.Record.Status = 0
		}
		x.c.Finish()
	}
	x.c.Close()
	return x.c.Record
}

// A driver is an exchange as its call sees it.
type driver Exchange

// Again implements call.Driver.
func (d *driver) Again(err error) (Reply, bool) {
	if !d.chain.IsPlanned() {
		return Reply{}, false
	}
	return d.chain.Planned.Again(err)
}

// Finish implements call.Driver.
func (d *driver) Finish() {
	c := &d.c
	c.Ended = true
	c.Record.End = c.Env.Now()
	c.Guarded.Note()
	if p := d.chain.Passage(); p != nil {
		p.End()
	}
	d.answer.End()
	if c.Active != nil {
		c.Active.Release()
		c.Active.ReleasePlace()
		c.NoteTries()
	}
	c.Hold.Release()
	d.account.Settle()
	d.account.Leave()
}

// Chosen returns the rule of a policy that has chosen the model, with the model that was asked for, and the chosen
// model. Both are empty if none has.
func (x *Exchange) Chosen() (policy, model string) {
	if x.c.Record.Policy == "" {
		return "", ""
	}
	return x.c.Record.Policy, x.c.Record.Model
}
