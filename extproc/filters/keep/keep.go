// Package keep keeps the bodies of requests and answers, if the configuration says so.
package keep

import (
	"cmp"
	"context"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
)

// A filter collects the bodies of one exchange.
type filter struct {
	c       *call.Call
	capture *bodies.Capture
}

// New returns the filter of a planned request; nil if its bodies are not in the share that is kept.
func New(a *account.Account) call.Filter {
	c := a.Call
	if c.Env.Bodies == nil || c.Request.Body == nil {
		return nil
	}
	s := a.Rules.Bodies
	if s == nil || !s.Keeps(cmp.Or(c.Record.Charge, c.Record.ID)) {
		return nil
	}
	return &filter{c, c.Env.Bodies.Begin(*s, c.Head.ContentType, c.Request.Body)}
}

// Request implements call.Filter.
func (f *filter) Request(context.Context) *call.Reply {
	f.c.Follow(f)
	return nil
}

// Answer implements call.Follower.
func (f *filter) Answer(piece []byte) { f.capture.Answer(piece) }

// End implements call.Follower. It hands the bodies over, under the id that the exchange has in the ledger.
func (f *filter) End() {
	c := f.c
	if c.Record.Unseen {
		f.capture.Unseen()
	}
	o := bodies.Owner{ID: c.Record.ID, Start: c.Record.Start, Subject: c.Record.Subject}
	if c.Record.Charge != "" && c.Record.Outcome == metering.OutcomeFinished {
		o.ID = c.Record.Charge
	}
	f.capture.End(o)
}
