package exchange

import (
	"cmp"

	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/metering"
)

// keepRequest begins to keep the bodies of the exchange, if it is in the share that is kept.
func (x *Exchange) keepRequest() {
	s := x.charging.rules.Bodies
	if x.env.Bodies != nil && s.Keeps(cmp.Or(x.record.Charge, x.record.ID)) {
		x.kept = x.env.Bodies.Begin(*s, x.head.ContentType, x.request.Body)
	}
}

// sent counts a piece of the answer's body that the client gets.
func (x *Exchange) sent(piece []byte) {
	x.record.Sent += int64(len(piece))
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
	if x.record.Unseen {
		x.kept.Unseen()
	}
	o := bodies.Owner{ID: x.record.ID, Start: x.record.Start, Subject: x.record.Subject}
	if x.record.Charge != "" && x.record.Outcome == metering.OutcomeFinished {
		o.ID = x.record.Charge
	}
	x.kept.End(o)
	x.kept = nil
}
