// Package jobs has the requests that the job service answers: for files, batches, fine-tuning, stored responses and
// conversations. Their bodies are not shown to ext_proc, because files are large, unless a body had to be read to know
// that the request is for the job service.
package jobs

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

// Operation returns the name of the job service's operation for a request, as used in metrics and logs, or "".
func Operation(c *call.Config, method, path string) string {
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
		if c.StoresResponses && (deeper && below != "compact" || call.IsRead(method)) {
			return StoredResponses
		}
	case "conversations":
		if c.StoresResponses {
			return name
		}
	case "models":
		if below != "" && method == http.MethodDelete {
			return name
		}
	}
	return ""
}

// StoredResponses is the operation of requests for stored responses. The request to the provider has an operation of
// its own.
const StoredResponses = "stored_responses"

// forwarded are the headers that the job service gets besides those of every request.
var forwarded = map[string]bool{"range": true, "if-range": true, "idempotency-key": true,
	"content-encoding": true}

// A Passage is a request for the job service.
type Passage struct {
	c      *call.Call
	a      *account.Account
	answer *answer.Answer
}

// New returns the passage of a call.
func New(c *call.Call, a *answer.Answer) *Passage { return &Passage{c, a.Account, a} }

// Send sends a request on its headers, with headers that identify the client.
func (p *Passage) Send(ctx context.Context) call.Reply {
	c := p.c
	if routing.HasParentSegment(c.Record.Path) {
		return c.Reject(routing.ParentSegmentError(), "mg_bad_path")
	}
	c.Record.ID = c.Env.NewID()
	counted, wanted := uses(c.Record.Method, c.Record.Path)
	if e := p.a.ReserveKnown(ctx, c.RulesOfKey().For(c.Fits).Only(counted...), wanted); e != nil {
		return c.Reject(e, "mg_limited")
	}
	h := c.Headers
	c.Active = &routing.Plan{ID: c.Record.ID, Kind: envoy.KindJobs}
	reply := c.Begun(call.Reply{Plan: c.Active, PassRequest: true, ResponseBody: call.None, Set: p.identity()})
	// The job service must not answer before Envoy has seen the end of the request, which may come after its last
	// byte.
	if length := h.Get("content-length"); length != "" && length != "0" {
		reply.Set = append(reply.Set, call.Header{Name: envoy.HeaderLength, Value: length})
		reply.Remove = append(reply.Remove, "content-length")
	}
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToProvider(name) && !forwarded[name] {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// identity returns the headers that tell the job service who the client is.
func (p *Passage) identity() call.Headers {
	set := call.Headers{{Name: envoy.HeaderKey, Value: p.c.Key.Name}}
	if organization := p.c.Key.Organization; organization != "" {
		set = append(set, call.Header{Name: envoy.HeaderOrganization, Value: url.QueryEscape(organization)})
	}
	if project := p.c.Key.Project; project != "" {
		set = append(set, call.Header{Name: envoy.HeaderProject, Value: url.QueryEscape(project)})
	}
	return append(set, p.c.TraceContext()...)
}

// SendRead sends a request whose body has been read. The job service sends another one to a provider, which is limited
// and charged.
func (p *Passage) SendRead(ctx context.Context, s inbound.State, unpacked bool) call.Reply {
	c := p.c
	c.Record.Operation = StoredResponses
	p.a.Leave()
	if s == inbound.Background {
		if e := p.fits(ctx); e != nil {
			return c.Reject(e, "mg_limited")
		}
	}
	c.Active = &routing.Plan{ID: c.Record.ID, Kind: envoy.KindJobs}
	reply := call.Reply{Plan: c.Active, Set: p.identity()}
	if p.a.WantsCost {
		reply.Set = append(reply.Set, call.Header{Name: answer.HeaderTellCost, Value: "true"})
	}
	if unpacked {
		reply.ReplaceBody, reply.Body = true, c.Request.Body
		reply.Set = append(reply.Set, call.Header{Name: "content-length", Value: strconv.Itoa(c.Request.Size)})
	}
	return reply
}

// fits checks that a request for a response that is made later fits in what is left of every budget, and reserves
// nothing. Its client would not learn of it later.
func (p *Passage) fits(ctx context.Context) *openai.Error {
	set := p.a.PreBodyRules().Only(limit.Cost)
	if len(set.Rules) == 0 || p.c.Env.Limits == nil {
		return nil
	}
	wanted := limit.Amounts{limit.Cost: 1}
	if model, err := p.c.Config.Resolve(p.c.Key, p.c.Request.Model); err == nil { // otherwise the job service reports it
		// The request of the job service reserves what tools cost.
		d := metering.DemandOf(p.c.Operation, &p.c.Request.Request, p.c.Request.Body, nil)
		wanted = account.Amounts(&d, p.c.Derived(), set, p.c.Config.Reached(model), p.c.Record.Start)
	}
	return p.a.Fits(ctx, set, wanted)
}

// uses returns what a request to the job service uses. A request that changes something counts like any other. A
// request that creates something is refused if a budget is spent, because nothing could be done for it. A request that
// only reads counts only while it runs.
func uses(method, path string) ([]limit.Measure, limit.Amounts) {
	wanted := limit.Amounts{limit.Concurrency: 1}
	counted := []limit.Measure{limit.Concurrency}
	if !call.IsRead(method) {
		counted, wanted[limit.Requests] = append(counted, limit.Requests), 1
		if method == http.MethodPost && !strings.HasSuffix(path, "/cancel") {
			counted, wanted[limit.Cost] = append(counted, limit.Cost), 1
		}
	}
	return counted, wanted
}

// Headers passes the headers of the job service's answer. Its body is not shown.
func (p *Passage) Headers(h call.Headers, f call.Facts, end bool) call.Reply {
	status, own := p.answer.Begin(h, f)
	if own != nil {
		return *own
	}
	id := call.Header{Name: "x-request-id", Value: p.c.Record.RequestID}
	reply := call.Reply{Set: append(call.Headers{id}, p.c.LimitHeaders...)}
	p.c.PassUnseen(&reply)
	if p.c.Duplex {
		reply.ResponseBody = call.None
	}
	switch {
	case status >= 500:
		p.c.Record.Outcome = metering.OutcomeFailed
	case status >= 400:
		p.c.Record.Outcome = metering.OutcomeRejected
	}
	if end {
		p.c.Finish()
	}
	return reply
}

// Body is for passages whose answers are shown.
func (p *Passage) Body(context.Context, []byte, bool) call.Reply { return call.Reply{} }

// Release is for passages whose answers wait.
func (p *Passage) Release() (call.Reply, bool) { return call.Reply{}, false }

// End is for passages that charge something at their end.
func (p *Passage) End() {}
