package exchange

import (
	"context"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/passages/jobs"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/inbound"
)

// passToJobs sends a request to the job service.
func (x *Exchange) passToJobs(ctx context.Context, h Headers) Reply {
	if routing.HasParentSegment(x.c.Record.Path) {
		return x.c.Reject(routing.ParentSegmentError(), "mg_bad_path")
	}
	x.c.Record.ID = x.c.Env.NewID()
	counted, wanted := jobs.Uses(x.c.Record.Method, x.c.Record.Path)
	set := x.c.RulesOfKey().For(x.c.Fits).Only(counted...)
	if e := x.account.ReserveKnown(ctx, set, wanted); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	p := jobs.New(&x.c, &x.account)
	x.state, x.passage = awaitResponse, p
	return p.Plan(h)
}

// stateOf returns what a request wants of stored state, as far as there may be any.
func (x *Exchange) stateOf() inbound.State {
	if x.c.Operation.StateOf == nil || !x.c.Config.StoresResponses || x.c.Internal {
		return inbound.Stateless
	}
	return x.c.Operation.StateOf(x.c.Request.Sent)
}

// passStateful sends a request whose body has been read to the job service.
func (x *Exchange) passStateful(ctx context.Context, s inbound.State) Reply {
	x.c.Record.Operation = jobs.StoredResponses
	x.account.Leave()
	p := jobs.New(&x.c, &x.account)
	if s == inbound.Background {
		if e := p.Fits(ctx); e != nil {
			return x.c.Reject(e, "mg_limited")
		}
	}
	x.state, x.passage = awaitResponse, p
	return p.PlanRead(x.gzip)
}

// passInternal sends a request of the job service unchanged to a provider, with the provider's credential.
func (x *Exchange) passInternal(ctx context.Context, name string, h Headers, query string, end bool) Reply {
	x.c.Record.Operation = "provider"
	p := x.c.Config.Providers[name]
	if p.IsWaiting() {
		return x.c.Reject(routing.WaitingError(), "mg_no_provider")
	}
	if p == nil || p.Config.GetDisabled() {
		return x.c.Reject(openai.CodeProviderNotFound.New("There is no provider '%s', or it is disabled.",
			name), "mg_no_provider")
	}
	return x.pass(ctx, p.AtRoot(), p.Join(x.c.Record.Path), h, query, nil, end)
}
