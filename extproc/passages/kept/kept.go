// Package kept has the requests that a response cache answers.
package kept

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
)

const headerSimilarity = "x-modelgate-cache-similarity" // of the request whose answer it is

// tick is the shortest time between two pieces of a stream.
const tick = 20 * time.Millisecond

// A Passage is a request with a kept answer. A stream may be sent piece by piece. Envoy streams an answer of the
// ext_proc service only in place of an upstream's, so the request takes a route on which Envoy answers with a byte,
// which the stream replaces.
type Passage struct {
	c      *call.Call
	answer *answer.Answer
	pace   int // events of a stream that are sent a second; 0: all at once

	set   call.Headers // of the answer
	rest  []byte
	many  int           // events in a piece
	every time.Duration // between pieces
}

// New returns the passage of a call with a kept answer.
func New(c *call.Call, a *answer.Answer) *Passage {
	p := &Passage{c: c, answer: a}
	if c.Duplex && c.Kept.ContentType == answer.TypeSSE {
		p.pace = c.Pace
	}
	return p
}

// Plan says what the request uses.
func (p *Passage) Plan(context.Context) *call.Reply {
	p.answer.Account.ExpectHit(metering.UserOf(&p.c.Request.Request), p.pace > 0)
	return nil
}

// Send answers with the kept answer, or begins to.
func (p *Passage) Send(context.Context) call.Reply {
	r, a := &p.c.Record, p.c.Kept
	r.Status, r.Priced = http.StatusOK, true
	own := call.Headers{{Name: "content-type", Value: a.ContentType},
		{Name: answer.HeaderCache, Value: string(r.Cache.Result)},
		{Name: "age", Value: strconv.Itoa(int(r.Cache.Age.Seconds()))}, {Name: answer.HeaderProvider, Value: a.Provider}}
	own = answer.AppendKnown(answer.AppendKnown(own, answer.HeaderDropped, a.Dropped), answer.HeaderAdjusted, a.Adjusted)
	if a.Similarity > 0 {
		own = append(own, call.Header{Name: headerSimilarity, Value: strconv.FormatFloat(a.Similarity, 'f', 3, 64)})
	}
	if p.answer.Account.WantsCost {
		own = append(own, call.Header{Name: answer.HeaderCost, Value: r.Cost.String()})
	}
	if p.pace > 0 {
		return p.replay(own, a.Body)
	}
	r.Outcome = metering.OutcomeFinished
	p.c.Finish()
	p.answer.Account.Note()
	h := http.Header{}
	for _, header := range own {
		h.Set(header.Name, header.Value)
	}
	return p.c.Immediate(http.StatusOK, h, a.Body, "mg_cached")
}

// replay begins the answer with a kept stream.
func (p *Passage) replay(set call.Headers, stream []byte) call.Reply {
	p.set, p.rest = p.c.AppendID(append(set, p.c.LimitHeaders...)), stream
	p.many, p.every = 1, time.Second/time.Duration(p.pace)
	for p.every < tick {
		p.many, p.every = 2*p.many, 2*p.every
	}
	p.c.Active = &routing.Plan{ID: p.c.Record.ID, Kind: envoy.KindReplayed}
	return call.Reply{Plan: p.c.Active}
}

// Headers replaces the headers of Envoy's answer.
func (p *Passage) Headers(h call.Headers, f call.Facts, _ bool) call.Reply {
	if f.CodeDetails != envoy.CodeDetailsOwn {
		return p.answer.Envoys(h, f.CodeDetails)
	}
	reply := p.answer.Headers(h)
	reply.Set, reply.Remove = p.set, append(reply.Remove, "content-length")
	return reply
}

// Body sends the first piece in place of Envoy's answer. What Envoy says besides is ignored.
func (p *Passage) Body(context.Context, []byte, bool) call.Reply { return p.next() }

// Release sends the next piece.
func (p *Passage) Release() (call.Reply, bool) { return p.next(), true }

// End is for passages that charge something at their end.
func (p *Passage) End() {}

// next returns the next piece of the kept stream. The last one ends the exchange.
func (p *Passage) next() call.Reply {
	n := 0
	for range p.many {
		end := bytes.Index(p.rest[n:], []byte("\n\n"))
		if end < 0 {
			n = len(p.rest)
			break
		}
		n += end + 2
	}
	if p.c.Record.FirstByte.IsZero() {
		p.c.Record.FirstByte = p.c.Env.Now()
	}
	reply := call.Reply{Piece: true, Body: p.rest[:n], End: n == len(p.rest), Patience: p.every}
	p.rest = p.rest[n:]
	p.c.Sent(reply.Body)
	if reply.End {
		reply.Patience, p.c.Record.Outcome = 0, metering.OutcomeFinished
		p.c.Finish()
		p.answer.Account.Note()
	}
	return reply
}
