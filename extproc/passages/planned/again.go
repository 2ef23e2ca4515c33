package planned

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/again"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// A further is what a passage knows of attempts that this process makes.
type further struct {
	first *again.Request // the first attempt, if this process makes that, too; nil: it is made
	stale []string       // headers of the answer that Envoy holds; nil: it is the one that is sent
	lost  error          // of the attempt before
	over  bool           // no further one can be made
}

// isFurther reports whether the answer is that to an attempt that this process makes.
func (p *Passage) isFurther() bool { return p.further != nil && p.further.stale != nil }

// relays reports whether this process makes the first attempt, too, because its provider is known to break answers off
// before their content. Envoy could not try such an attempt again.
func (p *Passage) relays() bool {
	plan, env := p.c.Active, p.c.Env
	return p.c.Duplex && len(plan.Targets) > 1 && env.Again != nil &&
		!env.Suspects.Until(plan.Targets[0].Provider, p.c.Record.Start).IsZero() && env.Again()
}

// relay has this process make the first attempt. The request takes the route on which Envoy itself answers.
func (p *Passage) relay(of first) call.Reply {
	plan := p.c.Active
	p.further = &further{first: &again.Request{Cluster: plan.Targets[0].Cluster, Header: of.header, Body: of.body,
		Timeout: plan.Timeout}}
	return call.Reply{Plan: &routing.Plan{ID: plan.ID, Kind: envoy.KindReplayed}}
}

// takeOver has the first attempt made in place of an answer of Envoy itself.
func (p *Passage) takeOver(h call.Headers, f call.Facts) call.Reply {
	first := p.further.first
	p.further.first = nil
	if f.CodeDetails != envoy.CodeDetailsOwn {
		return p.answer.Envoys(h, f.CodeDetails)
	}
	p.noteStale(h)
	p.c.Record.Attempts = 1
	return call.Reply{Wait: true, Again: first}
}

// hasNext reports whether the attempt that has an answer may be followed by another. Envoy sees to attempts that are
// answered with an error's status, unless this process made them.
func (p *Passage) hasNext() bool {
	return p.c.Env.Again != nil && p.c.Duplex && p.c.Record.Attempts < len(p.c.Active.Targets) &&
		(p.answer.Account.Begun || p.isFurther()) && (p.further == nil || !p.further.over)
}

// Again goes on with the next attempt of the plan after one has failed, if the client has got nothing of it and the
// retry policy has failures of the kind tried again.
func (p *Passage) Again(err error) (call.Reply, bool) {
	if !p.hasNext() || p.form != none && !p.c.HeadWaits || !p.isRetried(err) || !p.c.Env.Again() {
		return call.Reply{}, false
	}
	plan := p.c.Active
	for n := p.c.Record.Attempts + 1; n <= len(plan.Targets); n++ {
		attempt, cannot := plan.Encode(n)
		if cannot != nil {
			continue
		}
		p.giveUp(err, n)
		p.answer.Account.Text.Request(attempt.Body)
		return call.Reply{Wait: true, Again: &again.Request{Cluster: plan.Targets[n-1].Provider.Cluster(1),
			Header: attempt.Header, Body: attempt.Body, Timeout: plan.Timeout}}, true
	}
	return call.Reply{}, false
}

// isRetried reports whether the retry policy has a failure tried again. An answer that breaks off is like a broken
// connection.
func (p *Passage) isRetried(err error) bool {
	switch {
	case errors.Is(err, provider.ErrTruncated):
		return true
	case p.c.Guarded.HasEnded(), errors.Is(err, call.ErrAnswerTooLarge), errors.Is(err, call.ErrNoRoom):
		return false
	}
	e := pipeline.ClientError(err)
	return e.Code == openai.CodeUpstreamUnavailable || e.Code == openai.CodeUpstreamTimeout ||
		slices.ContainsFunc([]int{p.answer.Status(), e.Status, loadStatus(e)}, p.c.Active.Retried)
}

// loadStatus is the status that an error inside an answer stands for.
func loadStatus(e *openai.Error) int {
	if e.Code == openai.CodeOverloaded || e.Code == openai.CodeServerIsOverloaded {
		return routing.StatusOverloaded
	}
	return e.Status
}

// giveUp ends an attempt that failed, with what it is charged, and prepares the passage for the answer to the n-th
// attempt of the plan.
func (p *Passage) giveUp(err error, n int) {
	c := p.c
	r, now, next := &c.Record, c.Env.Now(), &c.Active.Targets[n-1]
	e := c.Provider.Scrub(pipeline.ClientError(err))
	cool := c.Env.Cooldown.Refused(c.Provider, cmp.Or(p.answer.Status(), loadStatus(e)), e.RetryAfter, now)
	p.answer.Account.Billed = p.answer.Account.Begun && !answer.IsRefusal(err)
	r.Outcome = metering.OutcomeFailed
	if errors.Is(err, provider.ErrTruncated) {
		r.Outcome = metering.OutcomeTruncated
	}
	c.Guarded.Note()
	p.readUsage()
	p.answer.End()
	c.NoteTries()
	p.answer.Account.EndTry(n, cmp.Or(string(e.Code), e.Type, string(r.Outcome)), cool, now)
	if p.further == nil {
		p.further = &further{}
	}
	if p.further.lost = err; p.further.stale == nil && c.HeadWaits {
		p.further.stale = slices.Concat(p.removed, headers.Answers()[0].Names)
	}
	p.answer.Reset()
	p.pipe, p.form, p.removed = pipeline.Pipeline{}, none, nil
	c.Retry(next.Provider)
	r.Provider, r.Vendor, r.Upstream = next.Provider.Config.GetName(), next.Provider.Vendor.Name, next.Model
}

// facts returns the facts of an attempt of Reply.Again.
func (p *Passage) facts() call.Facts {
	n := p.c.Record.Attempts
	return call.Facts{Cluster: p.c.Active.Targets[n-1].Cluster, Attempts: n, CodeDetails: envoy.CodeDetailsUpstream}
}

// noteStale notes the headers of the first answer if it failed at them: Envoy holds them.
func (p *Passage) noteStale(h call.Headers) {
	if p.isFurther() {
		return
	}
	p.further.stale = make([]string, 0, len(h))
	for i := range h {
		if h[i].Name[0] != ':' {
			p.further.stale = append(p.further.stale, h[i].Name)
		}
	}
}

// replaceHead returns the reply that replaces the headers that Envoy holds by the headers of a later answer.
func (p *Passage) replaceHead(reply call.Reply, h call.Headers) call.Reply {
	set := call.Headers{{Name: ":status", Value: strconv.Itoa(p.c.Record.Answered)}}
	for i := range h {
		if headers.ToClient(h[i].Name) && h[i].Name != "transfer-encoding" && !slices.Contains(reply.Remove, h[i].Name) {
			set = append(set, h[i])
		}
	}
	reply.Set, reply.Remove = append(set, reply.Set...), slices.Concat(p.further.stale, reply.Remove)
	return reply
}

// Broken ends the answer to an attempt of Reply.Again that breaks off, or does not come.
func (p *Passage) Broken(err error) call.Reply {
	c := p.c
	if c.HeadWaits {
		c.Env.Suspects.Suspect(c.Provider, c.Env.Now())
	}
	switch {
	case p.form == none && errors.Is(err, again.ErrNoEnvoy) && p.further.lost != nil:
		p.further.over = true
		c.Guarded.Expect() // the error is the provider's
		return p.answer.FailUpstream(p.further.lost, "mg_no_envoy")
	case p.form == none:
		p.answer.Account.Unanswered = errors.Is(err, context.DeadlineExceeded) ||
			metering.Reached(err.Error(), c.Env.Now().Sub(c.Active.SentAt(c.Record.Attempts, c.Record.SentAt)))
		e := openai.CodeUpstreamUnavailable.New("The provider could not be reached.")
		if errors.Is(err, context.DeadlineExceeded) {
			e = openai.CodeUpstreamTimeout.New("The provider did not answer in time.")
		}
		return p.answer.FailUpstream(e, "mg_unreached")
	case p.form == whole, p.form == judged, p.form == failed:
		p.answer.Account.Salvage(c.Held)
		return p.answer.ReplaceByError(provider.ErrTruncated)
	case c.HeadWaits:
		return p.answer.FailUpstream(provider.ErrTruncated, "mg_failed_stream")
	}
	p.answer.Sent = true
	_ = p.answer.Fail(provider.ErrTruncated)
	// What has begun can only be broken off, too.
	return call.Reply{Immediate: &call.Immediate{Status: http.StatusBadGateway, Header: http.Header{},
		Details: "mg_broken"}}
}
