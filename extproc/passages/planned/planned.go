// Package planned has the requests that are translated for providers: their plan, its attempts, and their answers.
package planned

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/judge"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// A Passage is a request with a plan of providers.
type Passage struct {
	c      *call.Call
	answer *answer.Answer

	first   first
	further *further // nil: Envoy makes all attempts
	form    form
	pipe    pipeline.Pipeline // of an answer that is translated
	removed []string          // headers of the answer that the client does not get, while they wait

	sized [2]call.Header // of a whole body
}

// first is the request of the first attempt, until it is sent.
type first struct {
	header call.Headers
	body   []byte
}

// A form is how an answer reaches the client.
type form uint8

// The forms of answers.
const (
	none   form = iota // it has not begun
	stream             // it is translated piece by piece
	passed             // it passes unchanged, piece by piece
	whole              // it is translated as a whole
	judged             // it passes as a whole if rules allow it
	failed             // it is a complete error
)

// patience is how long the headers of a stream wait for content. An error comes quickly, but a model may think for
// minutes. Proxies between gateway and client give up on an answer without headers after about one minute.
const patience = 15 * time.Second

// Open prepares the passage of a call.
func (p *Passage) Open(c *call.Call, a *answer.Answer) { p.c, p.answer = c, a }

// Plan plans the attempts of a request, and says what it is expected to use. If the first provider has a free place,
// Plan takes it.
func (p *Passage) Plan(ctx context.Context) *call.Reply {
	c := p.c
	c.Offers()
	r := &c.Request
	c.Record.Model, c.Record.Label = r.Model, c.Config.Label(r.Model)
	j := judge.New(c, p.answer.Account, c.Guarded.Rules())
	o := &routing.PlanRequest{ID: c.Record.ID, Model: r.Model, Request: r.Encoder, Guarded: c.Guarded.LooksAtAnswer(),
		Now: c.Env.Now, Random: c.Env.Random, Gates: &c.Env.Gates, Cooldown: &c.Env.Cooldown, Trace: c}
	if j != nil {
		o.Judge = j
	}
	plan, attempt, free, err := c.Config.Plan(ctx, o)
	c.Active, p.first = plan, first{attempt.Header, attempt.Body}
	j.Planned()
	if here, ok := errors.AsType[*inbound.CountHere](err); ok {
		reply := p.count(ctx, here)
		return &reply
	}
	if err != nil {
		e := dialects.Misdirected(c.Operation, r.Body, pipeline.ClientError(err))
		return p.answer.Account.RejectBody(ctx, e, "mg_no_plan")
	}
	c.Record.RefusedBy = "" // also if a rule has refused it for another target
	c.Full = !free
	p.answer.Account.Expect(p.demand())
	p.answer.Account.Text.Request(p.first.body)
	return nil
}

// demand returns what a request may use.
func (p *Passage) demand() metering.Demand {
	c := p.c
	d := metering.DemandOf(c.Operation, &c.Request.Request, c.Request.Body, c.Priced())
	if c.Operation.Free {
		return metering.Demand{User: d.User, Answers: 1}
	}
	return d
}

// Send sends the first attempt.
func (p *Passage) Send(context.Context) call.Reply {
	of := p.first
	p.first = first{}
	p.answer.Account.Send()
	if p.relays() {
		return p.relay(of)
	}
	set := slices.DeleteFunc(of.header, func(h call.Header) bool { // Envoy has it already
		return h.Name == "content-type" && h.Value == p.c.Head.ContentType ||
			h.Name == ":path" && h.Value == p.c.Record.Path && p.c.Plain
	})
	return call.Reply{Set: set, ReplaceBody: true, Body: of.body, Plan: p.c.Active}
}

// End is called once, when the exchange has ended.
func (p *Passage) End() {
	if p.form == whole && p.c.Record.Outcome == metering.OutcomeCut && len(p.c.Held) > 0 {
		p.answer.Account.Salvage(p.c.Held)
	}
	p.readUsage()
}

// readUsage takes over what the answer has reported.
func (p *Passage) readUsage() {
	if !p.pipe.IsIdle() && !p.answer.Account.Salvaged {
		p.c.Record.Usage, p.answer.Account.Tier = p.pipe.Usage(), p.pipe.Tier()
	}
}
