// Package passed has the requests that pass unread to a provider: those of Routes, and those of the job service for a
// provider. Their answers pass too. A limit of tokens or a budget needs their usage, so such answers are watched.
package passed

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/tokens"
)

// A Passage is a request for a Route, or a request of the job service for a provider.
type Passage struct {
	c       *call.Call
	account *account.Account
	answer  *answer.Answer

	provider *routing.Provider
	request  provider.Request
	remove   []string
	size     int    // of the body, in bytes
	sized    bool   // the size is announced
	media    string // of the body
	packed   bool   // the body is compressed
	unread   bool   // the body passes without being shown
	waited   bool   // the request waited for its body
	attempt  routing.Attempt

	scrubber *scrubber // of an error; nil: the answer is none
}

// Bounds of the body of a Route's request that is counted as text. What is beyond maxPassed may be a document in JSON,
// which nobody reads, and does not make a request too large for a limit. No model takes more than maxCounted.
const (
	maxPassed  = 256 << 10
	maxCounted = 4 << 20
)

// Unserved returns the error of a request to a provider, by its name, that is not enabled or not for the key.
func Unserved(c *call.Call, p *routing.Provider, name string) *openai.Error {
	switch {
	case p.IsWaiting():
		return routing.WaitingError()
	case p == nil || p.Config.GetDisabled():
		return openai.CodeNoProvider.New("The provider of this path is not enabled.")
	case !routing.Allows(c.Key, name+"/*"): // a path may be for any model
		c.Record.RefusedBy = "key/" + c.Key.Name + " models"
		return openai.CodeRouteNotAllowed.New("This key is bound to models and may not use paths that are passed to the provider '%s' as they are.",
			name)
	}
	return nil
}

// New returns the passage of a request under a path relative to the provider's endpoint. Named are headers that go on
// although they change what the provider's server does.
func New(c *call.Call, a *answer.Answer, p *routing.Provider, path string, named []string) *Passage {
	h := c.Headers
	next := &Passage{c: c, account: a.Account, answer: a, provider: p,
		request: provider.Request{Path: path, Header: http.Header{}}}
	if t := h.Get("content-type"); t != "" {
		next.request.Header.Set("Content-Type", t)
	}
	for i := range h {
		if isWithheld(h[i].Name, p.Vendor.CredentialHeaders, named) {
			next.remove = append(next.remove, h[i].Name)
		}
	}
	next.media, next.packed = call.MediaType(h.Get("content-type")), h.Get("content-encoding") != ""
	size, err := strconv.Atoi(h.Get("content-length"))
	next.size, next.sized = size, err == nil
	return next
}

// NeedsBody reports whether the request waits for its body: to be signed, or because what is reserved follows from its
// length.
func (p *Passage) NeedsBody() bool {
	return p.provider.Vendor.SignsBody || !p.sized && p.account.WillMeter(p.provider.Config.GetName())
}

// SetBody adds the body of a request that waited for it.
func (p *Passage) SetBody(body []byte) { p.request.Body, p.size, p.waited = body, len(body), true }

// demand returns the expected usage of the request. A body that is not text may have as many tokens as a text of its
// length, but is not charged for them. A compressed text has at least as many as one of its length.
func (p *Passage) demand() metering.Demand {
	d := metering.Demand{Output: -1, Answers: 1, HourCache: metering.AsksHourCache(p.request.Body),
		Passed: p.request.Body == nil && p.size > 0}
	sure := tokens.Estimate(min(p.size, maxPassed))
	if isMedia(p.media) {
		d.Unread = sure
	} else {
		d.Input = tokens.Estimate(min(p.size, maxCounted))
		d.Doubt = d.Input - sure
	}
	if p.packed && p.size > 0 {
		d.Unread = max(0, tokens.Estimate(maxPassed)-d.Input)
	}
	return d
}

// isMedia reports whether a body of a type is no text.
func isMedia(media string) bool {
	switch kind, _, _ := strings.Cut(media, "/"); kind {
	case "multipart", "audio", "image", "video":
		return true
	}
	return media == "application/octet-stream"
}

// Plan makes the plan with the one attempt of the request. It is refused if the provider has no free place: it cannot
// wait, because its body is on its way.
func (p *Passage) Plan(context.Context) *call.Reply {
	c := p.c
	attempt, err := p.provider.Attempt(c.Record.Method, &p.request, c.Record.Start)
	if err != nil {
		return c.Refuse(pipeline.ClientError(err), "mg_no_plan")
	}
	target := routing.Target{Provider: p.provider, Model: p.modelIn(p.provider.Vendor.Name, p.request.Path),
		Cluster: p.provider.Cluster(1)}
	c.Active = routing.NewPassed(c.Record.ID, target, c)
	c.Active.SetTrace(target, &attempt)
	p.attempt = attempt
	if c.Key == nil {
		return nil
	}
	if !c.Active.Acquire(&c.Env.Gates) {
		return c.Refuse(call.Overloaded(), "mg_overloaded")
	}
	p.account.Expect(p.demand())
	return nil
}

// Send sends the request, without the headers that the provider must not get.
func (p *Passage) Send(context.Context) call.Reply {
	reply := call.Reply{Set: p.attempt.Header, Plan: p.c.Active}
	if p.c.Key != nil {
		p.account.Send()
	}
	for _, name := range p.remove {
		if reply.Set.Get(name) == "" {
			reply.Remove = append(reply.Remove, name)
		}
	}
	if p.waited {
		return reply
	}
	reply.PassRequest, reply.ResponseBody, p.unread = true, call.None, true
	return p.c.Begun(reply)
}

// Headers passes the headers of an answer, with any status.
func (p *Passage) Headers(h call.Headers, f call.Facts, end bool) call.Reply {
	status, own := p.answer.Begin(h, f)
	if own != nil {
		return *own
	}
	var reply call.Reply
	if !p.c.Internal { // the job service reads the provider's own answer
		reply = p.clientHeaders(h)
	}
	if p.account.Meters() && p.account.Begun && !end {
		if p.watch(h, &reply) {
			return reply
		}
		p.account.Opaque = true
	}
	p.c.PassUnseen(&reply)
	switch {
	case answer.IsClientError(status):
		p.c.Record.Outcome = metering.OutcomeRejected
	case status >= 400:
		p.c.Record.Outcome = metering.OutcomeFailed
	}
	if end {
		p.c.Finish()
	}
	if isError(status) {
		return p.scrub(h, status, reply)
	}
	return reply
}

// Body passes a piece of a watched answer, or of an error without the secrets in it.
func (p *Passage) Body(ctx context.Context, piece []byte, end bool) call.Reply {
	if p.scrubber == nil {
		return p.answer.PassPiece(ctx, piece, end)
	}
	out := p.scrubber.pass(piece, end)
	if end {
		p.c.Finish()
	}
	return call.Reply{ReplaceBody: true, Body: out}
}

// Release is for passages whose answers wait.
func (p *Passage) Release() (call.Reply, bool) { return call.Reply{}, false }

// End is for passages that charge something at their end.
func (p *Passage) End() {}

// watch watches the body of an answer that may report its usage.
func (p *Passage) watch(h call.Headers, reply *call.Reply) bool {
	switch media := call.MediaType(h.Get("content-type")); {
	case h.Get("content-encoding") != "":
		return false
	case media == "text/event-stream":
		p.answer.Watch, p.c.Record.Stream = &metering.SilentWatch{}, true
	case media == answer.TypeJSON:
		p.answer.Watch = &metering.DocumentWatch{}
	default:
		return false
	}
	p.answer.Sent, reply.ResponseBody = true, call.Streamed
	reply.PassRequest = p.unread
	return true
}

// clientHeaders removes headers that are for the gateway from an answer to a client.
func (p *Passage) clientHeaders(h call.Headers) call.Reply {
	reply := call.Reply{Set: append(call.Headers{{Name: answer.HeaderProvider, Value: p.c.Record.Provider},
		{Name: "x-request-id", Value: p.c.Record.RequestID}}, p.c.LimitHeaders...)}
	if id := answer.UpstreamID(h); id != "" {
		reply.Set = append(reply.Set, call.Header{Name: answer.HeaderUpstream, Value: id})
	}
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.BackThroughRoute(name) && reply.Set.Get(name) == "" {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}
