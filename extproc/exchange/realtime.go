package exchange

import (
	"context"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/identity"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/passages/realtime"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// openSession handles the handshake of a session, which has no body.
func (x *Exchange) openSession(ctx context.Context, h Headers, query string, end bool) Reply {
	x.c.Operation, x.c.Record.Operation, x.c.Record.Stream = realtime.Operation, realtime.Operation.Name, true
	if e, details := realtime.Refuse(&x.c, h, end); e != nil {
		return x.c.Reject(e, details)
	}
	x.c.Record.ID = x.c.Env.NewID()
	if e := x.account.Enter(ctx, x.account.PreBodyRules()); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	if e := x.unguarded(); e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	asked, e := realtime.Model(query)
	if e != nil {
		return x.rejectBody(ctx, e, "mg_bad_request")
	}
	model, err := x.c.Config.Resolve(x.c.Key, asked)
	if err != nil {
		if x.c.Record.RefusedBy = x.c.Config.Withholder(x.c.Key, asked); x.c.Record.RefusedBy != "" { // it exists
			x.c.Record.Model, x.c.Record.Label = asked, x.c.Config.Label(asked)
		}
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_no_model")
	}
	x.c.Request.Request = inbound.Request{Model: model, Stream: true, Encoder: realtime.Encoder{}}
	if e = policies.Decide(&x.c); e != nil {
		return x.rejectBody(ctx, e, "mg_guarded")
	}
	_, free, err := x.plan(ctx)
	if err != nil {
		return x.rejectBody(ctx, pipeline.ClientError(err), "mg_no_plan")
	}
	if !free { // a client that waits for its handshake has nothing to say so with
		return x.c.Reject(call.Overloaded(), "mg_overloaded")
	}
	// This is refused if a limit is used up, and counts the request. What responses use has reservations of its own.
	if e := x.reserve(ctx, metering.Demand{Input: 1, Output: 1, Answers: 1}); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.account.Demand.Input = 0 // nothing is charged for it
	s := realtime.New(&x.c, &x.answer, h, identity.Authorization(&x.c, h))
	x.passage = s
	if e := s.Hold(ctx); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.c.Duplex = true
	return x.sendOut(s.Handshake(h))
}

// InSession reports whether pieces of the answer belong to a session, and may reserve usage.
func (x *Exchange) InSession() bool { return x.c.Active != nil && x.c.Active.Kind == envoy.KindSession }
