package exchange

import (
	"context"

	"github.com/modelgate/modelgate/extproc/judge"
	"github.com/modelgate/modelgate/extproc/passages/realtime"
	"github.com/modelgate/modelgate/extproc/routing"
)

// plan makes the plan of a request with a known model, and returns the first attempt. If the first provider has a free
// place, plan takes it and returns true. An error is an *openai.Error.
func (x *Exchange) plan(ctx context.Context) (a routing.Attempt, free bool, err error) {
	r := &x.c.Request
	x.c.Record.Model, x.c.Record.Label = r.Model, x.c.Config.Label(r.Model)
	var j *judge.Judge
	if x.c.Operation != realtime.Operation {
		j = judge.New(&x.c, &x.account, x.guarded.set)
	}
	o := &routing.PlanRequest{ID: x.c.Record.ID, Model: r.Model, Request: r.Encoder,
		Session: x.c.Operation == realtime.Operation, Guarded: x.guarded.looksAtAnswer(),
		Now: x.c.Env.Now, Random: x.c.Env.Random, Gates: &x.c.Env.Gates, Cooldown: &x.c.Env.Cooldown, Trace: &x.c}
	if j != nil {
		o.Judge = j
	}
	x.c.Active, a, free, err = x.c.Config.Plan(ctx, o)
	j.Planned()
	if err == nil { // also if a rule has refused it for another target
		x.c.Record.RefusedBy = ""
	}
	return a, free, err
}
