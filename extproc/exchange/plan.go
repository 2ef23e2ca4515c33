package exchange

import (
	"context"

	"github.com/modelgate/modelgate/extproc/routing"
)

// plan makes the plan of a request with a known model, and returns the first attempt. If the first provider has a free
// place, plan takes it and returns true. An error is an *openai.Error.
func (x *Exchange) plan(ctx context.Context) (a routing.Attempt, free bool, err error) {
	r := &x.request
	x.record.Model, x.record.Label = r.Model, x.config.Label(r.Model)
	j := x.judgeOf()
	o := &routing.PlanRequest{ID: x.record.ID, Model: r.Model, Request: r.Encoder,
		ByPlace: x.hasPlaces, Session: x.operation == realtime, Guarded: x.guarded.looksAtAnswer(),
		Now: x.env.Now, Random: x.env.Random, Gates: &x.env.gates, Cooldown: &x.env.Cooldown, Trace: x}
	if j != nil {
		o.Judge = j
	}
	if x.active, a, free, err = x.config.Plan(ctx, o); j != nil {
		j.planned = true
	}
	if err == nil { // also if a rule has refused it for another target
		x.record.RefusedBy = ""
	}
	return a, free, err
}
