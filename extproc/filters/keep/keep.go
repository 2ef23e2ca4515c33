// Package keep keeps the bodies of requests and answers, if the configuration says so.
package keep

import (
	"cmp"

	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
)

// A Keep collects the bodies of one exchange. The zero value keeps nothing.
type Keep struct{ capture *bodies.Capture }

// Request begins to keep the bodies of an exchange, if it is in the share that is kept.
func (k *Keep) Request(c *call.Call, s *bodies.Setting) {
	if s != nil && c.Env.Bodies != nil && s.Keeps(cmp.Or(c.Record.Charge, c.Record.ID)) {
		k.capture = c.Env.Bodies.Begin(*s, c.Head.ContentType, c.Request.Body)
	}
}

// Answer keeps a piece of the answer's body.
func (k *Keep) Answer(piece []byte) {
	if k.capture != nil {
		k.capture.Answer(piece)
	}
}

// End hands the bodies over, under the id that the exchange has in the ledger.
func (k *Keep) End(c *call.Call) {
	if k.capture == nil {
		return
	}
	if c.Record.Unseen {
		k.capture.Unseen()
	}
	o := bodies.Owner{ID: c.Record.ID, Start: c.Record.Start, Subject: c.Record.Subject}
	if c.Record.Charge != "" && c.Record.Outcome == metering.OutcomeFinished {
		o.ID = c.Record.Charge
	}
	k.capture.End(o)
	k.capture = nil
}
