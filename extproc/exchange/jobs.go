package exchange

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
)

// jobsOperation returns the name of the job service's operation for a request, as used in metrics and logs, or "".
func (x *Exchange) jobsOperation(method, path string) string {
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return ""
	}
	name, below, deeper := strings.Cut(rest, "/")
	switch name {
	case "files", "uploads", "batches":
		return name
	case "fine_tuning":
		if deeper {
			return name
		}
	case "responses":
		if x.c.Config.StoresResponses && (deeper && below != "compact" || call.IsRead(method)) {
			return storedResponses
		}
	case "conversations":
		if x.c.Config.StoresResponses {
			return name
		}
	case "models":
		if below != "" && method == http.MethodDelete {
			return name
		}
	}
	return ""
}

// storedResponses is the operation of requests for stored responses. The request to the provider has an operation of
// its own.
const storedResponses = "stored_responses"

// forwardedToJobs are the headers that the job service gets besides those of every request.
var forwardedToJobs = map[string]bool{"range": true, "if-range": true, "idempotency-key": true,
	"content-encoding": true}

// passToJobs sends a request to the job service with headers that identify the client. The bodies are not shown to
// ext_proc, because files are large.
func (x *Exchange) passToJobs(ctx context.Context, h Headers) Reply {
	if routing.HasParentSegment(x.c.Record.Path) {
		return x.c.Reject(routing.ParentSegmentError(), "mg_bad_path")
	}
	x.c.Record.ID = x.c.Env.NewID()
	if e := x.reserveJobs(ctx); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.c.Active = &routing.Plan{ID: x.c.Record.ID, Kind: envoy.KindJobs}
	x.state = awaitResponse
	reply := x.c.Begun(Reply{Plan: x.c.Active, PassRequest: true, ResponseBody: None, Set: x.identity()})
	// The job service must not answer before Envoy has seen the end of the request, which may come after its last
	// byte.
	if length := h.Get("content-length"); length != "" && length != "0" {
		reply.Set = append(reply.Set, Header{Name: envoy.HeaderLength, Value: length})
		reply.Remove = append(reply.Remove, "content-length")
	}
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToProvider(name) && !forwardedToJobs[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// identity returns the headers that tell the job service who the client is.
func (x *Exchange) identity() Headers {
	set := Headers{{Name: envoy.HeaderKey, Value: x.c.Key.Name}}
	if organization := x.c.Key.Organization; organization != "" {
		set = append(set, Header{Name: envoy.HeaderOrganization, Value: url.QueryEscape(organization)})
	}
	if project := x.c.Key.Project; project != "" {
		set = append(set, Header{Name: envoy.HeaderProject, Value: url.QueryEscape(project)})
	}
	return append(set, x.c.TraceContext()...)
}

// stateOf returns what a request wants of stored state, as far as there may be any.
func (x *Exchange) stateOf() inbound.State {
	if x.c.Operation.StateOf == nil || !x.c.Config.StoresResponses || x.c.Internal {
		return inbound.Stateless
	}
	return x.c.Operation.StateOf(x.c.Request.Sent)
}

// passStateful sends a request whose body has been read to the job service, which sends another one to a provider.
// That one is limited and charged. This one only checks, for a response that is made later, that it fits in what is
// left of every budget: its client could not be told later.
func (x *Exchange) passStateful(ctx context.Context, s inbound.State) Reply {
	x.c.Record.Operation = storedResponses
	x.account.Leave()
	if s == inbound.Background {
		if e := x.fitsBudgets(ctx); e != nil {
			return x.c.Reject(e, "mg_limited")
		}
	}
	x.c.Active = &routing.Plan{ID: x.c.Record.ID, Kind: envoy.KindJobs}
	x.state = awaitResponse
	reply := Reply{Plan: x.c.Active, Set: x.identity()}
	if x.account.WantsCost {
		reply.Set = append(reply.Set, Header{Name: answer.HeaderTellCost, Value: "true"})
	}
	if x.gzip {
		reply.ReplaceBody, reply.Body = true, x.c.Request.Body
		reply.Set = append(reply.Set, Header{Name: "content-length", Value: strconv.Itoa(x.c.Request.Size)})
	}
	return reply
}

// fitsBudgets checks that a request fits in the budgets, and reserves nothing.
func (x *Exchange) fitsBudgets(ctx context.Context) *openai.Error {
	set := x.account.PreBodyRules().Only(limit.Cost)
	if len(set.Rules) == 0 || x.c.Env.Limits == nil {
		return nil
	}
	wanted := limit.Amounts{limit.Cost: 1}
	if model, err := x.c.Config.Resolve(x.c.Key, x.c.Request.Model); err == nil { // otherwise the job service reports it
		// The request of the job service reserves what tools cost.
		d := metering.DemandOf(x.c.Operation, &x.c.Request.Request, x.c.Request.Body, nil)
		wanted = account.Amounts(&d, x.c.Derived(), set, x.c.Config.Reached(model))
	}
	return x.account.Fits(ctx, set, wanted)
}

// reserveJobs reserves what a request to the job service uses. A request that changes something counts like any other.
// A request that creates something is refused if a budget is spent, because nothing could be done for it. A request
// that only reads counts only while it runs.
func (x *Exchange) reserveJobs(ctx context.Context) *openai.Error {
	wanted := limit.Amounts{limit.Concurrency: 1}
	counted := []limit.Measure{limit.Concurrency}
	if !call.IsRead(x.c.Record.Method) {
		counted, wanted[limit.Requests] = append(counted, limit.Requests), 1
		if x.c.Record.Method == http.MethodPost && !strings.HasSuffix(x.c.Record.Path, "/cancel") {
			counted, wanted[limit.Cost] = append(counted, limit.Cost), 1
		}
	}
	return x.account.ReserveKnown(ctx, x.c.RulesOfKey().For(x.c.Fits).Only(counted...), wanted)
}

// passJobs passes the job service's answer to the client.
func (x *Exchange) passJobs(status int, end bool) Reply {
	reply := Reply{Set: append(Headers{{Name: "x-request-id", Value: x.c.Record.RequestID}}, x.c.LimitHeaders...)}
	x.c.PassUnseen(&reply)
	if x.duplex.on {
		reply.ResponseBody = None
	}
	switch {
	case status >= 500:
		x.c.Record.Outcome = metering.OutcomeFailed
	case status >= 400:
		x.c.Record.Outcome = metering.OutcomeRejected
	}
	if end {
		x.c.Finish()
	}
	return reply
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
