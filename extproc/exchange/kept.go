package exchange

import (
	"cmp"

	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/metering"
)

// keepRequest begins to keep the bodies of the exchange, if it is in the share that is kept.
func (x *Exchange) keepRequest() {
	s := x.account.Rules.Bodies
	if x.c.Env.Bodies != nil && s.Keeps(cmp.Or(x.c.Record.Charge, x.c.Record.ID)) {
		x.kept = x.c.Env.Bodies.Begin(*s, x.c.Head.ContentType, x.c.Request.Body)
	}
}

// sent counts a piece of the answer's body that the client gets.
func (x *Exchange) sent(piece []byte) {
	x.c.Record.Sent += int64(len(piece))
	if x.kept != nil {
		x.kept.Answer(piece)
	}
	if x.cached != nil {
		x.collect(piece)
	}
}

// endKept hands the bodies over, under the id that the exchange has in the ledger.
func (x *Exchange) endKept() {
	if x.kept == nil {
		return
	}
	if x.c.Record.Unseen {
		x.kept.Unseen()
	}
	o := bodies.Owner{ID: x.c.Record.ID, Start: x.c.Record.Start, Subject: x.c.Record.Subject}
	if x.c.Record.Charge != "" && x.c.Record.Outcome == metering.OutcomeFinished {
		o.ID = x.c.Record.Charge
	}
	x.kept.End(o)
	x.kept = nil
}
