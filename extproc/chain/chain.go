package chain

import (
	"context"

	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/extproc/passages/kept"
	"github.com/modelgate/modelgate/extproc/passages/passed"
	"github.com/modelgate/modelgate/extproc/passages/planned"
)

// A Chain decides about one request, and has its passage.
type Chain struct {
	c      *call.Call
	answer *answer.Answer

	at      uint8 // the place of the filter that decides next
	hasPlan bool  // it is known who gets the request
	gzip    bool
	waits   bool            // the passage of the request waits for the body
	filter  call.Filter     // that waits; nil: none does
	sends   sender          // the passage of a request that the last filters decide about
	passage Passage         // nil: nothing is sent
	Planned planned.Passage // of a request with a plan
}

// A Passage is what becomes of an admitted request.
type Passage interface {
	// Headers handles the headers of an answer that Envoy has got for the request.
	Headers(h call.Headers, f call.Facts, end bool) call.Reply
	// Body handles a piece of the answer.
	Body(ctx context.Context, piece []byte, end bool) call.Reply
	// Release is called by a timer, if a reply had Patience. It reports whether there is a reply.
	Release() (call.Reply, bool)
	// End is called when the exchange has ended, before its charge is settled.
	End()
}

// A sender is the passage of a request that limits are for.
type sender interface {
	Passage
	// Plan says who gets the request, and what it may use. Nil means that the last filters decide.
	Plan(ctx context.Context) *call.Reply
	// Send sends the request.
	Send(ctx context.Context) call.Reply
}

// Open prepares the chain of a call.
func (x *Chain) Open(c *call.Call, a *answer.Answer) {
	x.c, x.answer = c, a
	x.Planned.Open(c, a)
}

// IsPlanned reports whether the request has a plan of providers.
func (x *Chain) IsPlanned() bool { return x.passage == Passage(&x.Planned) }

// Passage returns what becomes of the request; nil if nothing is sent.
func (x *Chain) Passage() Passage { return x.passage }

// IsPacked reports whether the body that the request waits for is compressed.
func (x *Chain) IsPacked() bool { return x.gzip && x.passage == nil }

// run has the filters of a stage decide.
func (x *Chain) run(ctx context.Context, s stage) *call.Reply {
	for ; int(x.at) < len(list) && list[x.at].stage <= s; x.at++ {
		p := &list[x.at]
		if p.stage < s {
			continue
		}
		if x.filter == nil {
			if x.filter = p.filter(x.answer.Account); x.filter == nil {
				continue
			}
		}
		reply := x.filter.Request(ctx)
		if reply != nil && reply.Queue {
			return reply
		}
		if x.filter = nil; reply != nil {
			return reply
		}
	}
	return nil
}

// decide has the filters decide about a request whose content is known, as far as its passage reads it, and sends it.
func (x *Chain) decide(ctx context.Context) call.Reply {
	if !x.hasPlan {
		if reply := x.run(ctx, onContent); reply != nil {
			return *reply
		}
		if x.c.Kept != nil {
			x.sends = kept.New(x.c, x.answer)
		}
		if reply := x.sends.Plan(ctx); reply != nil {
			return *reply
		}
		x.hasPlan = true
	}
	if reply := x.run(ctx, onPlan); reply != nil {
		return *reply
	}
	x.passage = x.sends
	return x.sends.Send(ctx)
}

// Turn is called after a reply with Queue. Filters may wait now. The context ends when the client leaves.
func (x *Chain) Turn(ctx context.Context) call.Reply {
	x.c.MayWait = true
	return x.decide(ctx)
}

// Body handles the complete body of a request. The context ends with the exchange.
func (x *Chain) Body(ctx context.Context, body []byte) call.Reply {
	if reply := room.Request(x.c, int64(len(body))); reply != nil {
		return *reply
	}
	if x.waits {
		x.sends.(*passed.Passage).SetBody(body) // nothing else waits
		return x.decide(ctx)
	}
	if reply, done := x.read(ctx, body); done {
		return reply
	}
	return x.decide(ctx)
}
