package exchange

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

// try notes the attempts so far, if there are several.
func (x *Exchange) try() {
	tries := x.c.Active.Tries(x.c.Record.SentAt, x.c.Record.Attempts)
	if len(tries) > len(x.c.Record.Tries) {
		x.c.Record.Tries = append(x.c.Record.Tries, tries[len(x.c.Record.Tries):]...)
	}
	if x.c.Env.Tried != nil && len(tries) > 1 {
		x.c.Env.Tried.Tell(x.c.Record.Tries)
	}
}

// A further is what an exchange knows of attempts that this process makes.
type further struct {
	first *again.Request // the first attempt, if this process makes that, too; nil: it is made
	stale []string       // headers of the answer that Envoy holds; nil: it is the one that is sent
	lost  error          // of the attempt before
	over  bool           // no further one can be made
}

// isFurther reports whether the answer is that to an attempt that this process makes.
func isFurther(x *Exchange) bool { return x.further != nil && x.further.stale != nil }

// relayed has this process make the first attempt, too, if its provider is known to break answers off before their
// content. Envoy could not try such an attempt again. The request takes the route on which Envoy itself answers.
func relayed(x *Exchange, first routing.Attempt, reply Reply) Reply {
	p, env, now := x.c.Active, x.c.Env, x.c.Record.Start
	if !x.c.Duplex || len(p.Targets) < 2 || env.Again == nil ||
		env.Suspects.Until(p.Targets[0].Provider, now).IsZero() || !env.Again() {
		return reply
	}
	x.further = &further{first: &again.Request{Cluster: p.Targets[0].Cluster, Header: first.Header, Body: first.Body,
		Timeout: p.Timeout}}
	return Reply{Plan: &routing.Plan{ID: p.ID, Kind: envoy.KindReplayed}}
}

// takeOver has the first attempt made in place of an answer of Envoy itself.
func takeOver(x *Exchange, h Headers, f Facts) Reply {
	first := x.further.first
	x.further.first = nil
	if f.CodeDetails != envoy.CodeDetailsOwn {
		status, _ := strconv.Atoi(h.Get(":status"))
		return answer.Envoys(&x.c, &x.account, status, f.CodeDetails)
	}
	noteStale(x, h)
	x.c.Record.Attempts = 1
	return Reply{Wait: true, Again: first}
}

// hasNext reports whether the attempt that has an answer may be followed by another. Envoy sees to attempts that are
// answered with an error's status, unless this process made them.
func hasNext(x *Exchange) bool {
	return x.c.Env.Again != nil && x.c.Duplex && x.c.Active.Kind == envoy.KindLLM &&
		x.c.Record.Attempts < len(x.c.Active.Targets) && (x.account.Begun || isFurther(x)) &&
		(x.further == nil || !x.further.over)
}

// letGo releases the request if no attempt can follow the one that has an answer.
func letGo(x *Exchange) {
	if !hasNext(x) {
		x.c.Active.Release()
	}
}

// tryAgain goes on with the next attempt of the plan after one has failed of which the client has got nothing, if the
// retry policy has failures of the kind tried again.
func tryAgain(x *Exchange, err error) (Reply, bool) {
	if !hasNext(x) || x.state != awaitResponse && x.duplex.head == nil || !isRetried(x, err) || !x.c.Env.Again() {
		return Reply{}, false
	}
	for n := x.c.Record.Attempts + 1; n <= len(x.c.Active.Targets); n++ {
		attempt, cannot := x.c.Active.Encode(n)
		if cannot != nil {
			continue
		}
		giveUp(x, err, n)
		x.account.Text.Request(attempt.Body)
		return Reply{Wait: true, Again: &again.Request{Cluster: x.c.Active.Targets[n-1].Provider.Cluster(1),
			Header: attempt.Header, Body: attempt.Body, Timeout: x.c.Active.Timeout}}, true
	}
	return Reply{}, false
}

// isRetried reports whether the retry policy has a failure tried again. An answer that breaks off is like a broken
// connection.
func isRetried(x *Exchange, err error) bool {
	switch {
	case errors.Is(err, provider.ErrTruncated):
		return true
	case x.c.GuardAway, x.c.HasBlocked(), errors.Is(err, call.ErrAnswerTooLarge), errors.Is(err, call.ErrNoRoom):
		return false
	}
	e := pipeline.ClientError(err)
	return e.Code == openai.CodeUpstreamUnavailable || e.Code == openai.CodeUpstreamTimeout ||
		slices.ContainsFunc([]int{x.answer.Status(), e.Status, loadStatus(e)}, x.c.Active.Retried)
}

// loadStatus is the status that an error inside an answer stands for.
func loadStatus(e *openai.Error) int {
	if e.Code == openai.CodeOverloaded || e.Code == openai.CodeServerIsOverloaded {
		return routing.StatusOverloaded
	}
	return e.Status
}

// giveUp ends an attempt that failed, with what it is charged, and prepares the exchange for the answer to the n-th
// attempt of the plan.
func giveUp(x *Exchange, err error, n int) {
	r, now, next := &x.c.Record, x.c.Env.Now(), &x.c.Active.Targets[n-1]
	e := x.c.Provider.Scrub(pipeline.ClientError(err))
	cool := x.c.Env.Cooldown.Refused(x.c.Provider, cmp.Or(x.answer.Status(), loadStatus(e)), e.RetryAfter, now)
	x.account.Billed = x.account.Begun && !answer.IsRefusal(err)
	r.Outcome = metering.OutcomeFailed
	if errors.Is(err, provider.ErrTruncated) {
		r.Outcome = metering.OutcomeTruncated
	}
	x.noteGuard()
	readUsage(x)
	x.try()
	x.account.EndTry(n, cmp.Or(string(e.Code), e.Type, string(r.Outcome)), cool, now)
	if x.further == nil {
		x.further = &further{}
	}
	if x.further.lost = err; x.further.stale == nil && x.duplex.head != nil {
		x.further.stale = slices.Concat(x.duplex.head.Remove, headers.Answers()[0].Names)
	}
	x.cached.Retried()
	x.duplex = duplex{}
	x.answer.Reset()
	x.pipe, x.c.Guard, x.c.Whole, x.c.Unseen, x.c.Media = pipeline.Pipeline{}, nil, false, false, ""
	x.state, x.c.Provider, x.room.IsMissing = awaitResponse, next.Provider, false
	r.Provider, r.Vendor, r.Upstream = next.Provider.Config.GetName(), next.Provider.Vendor.Name, next.Model
}

// readUsage takes over what the answer has reported.
func readUsage(x *Exchange) {
	if !x.pipe.IsIdle() {
		x.c.Record.Usage, x.account.Tier = x.pipe.Usage(), x.pipe.Tier()
	}
	if x.answer.Watch != nil {
		x.account.Watched(x.answer.Watch.Report())
	}
}

// factsOf returns the facts of an attempt of Reply.Again.
func factsOf(x *Exchange) Facts {
	n := x.c.Record.Attempts
	return Facts{Cluster: x.c.Active.Targets[n-1].Cluster, Attempts: n, CodeDetails: envoy.CodeDetailsUpstream}
}

// noteStale notes the headers of the first answer if it failed at them: Envoy holds them.
func noteStale(x *Exchange, h Headers) {
	if isFurther(x) {
		return
	}
	x.further.stale = make([]string, 0, len(h))
	for i := range h {
		if h[i].Name[0] != ':' {
			x.further.stale = append(x.further.stale, h[i].Name)
		}
	}
}

// replaceHead returns the reply to the headers that Envoy holds, in place of which those of a later answer are sent.
func replaceHead(x *Exchange, reply Reply, h Headers) Reply {
	set := Headers{{Name: ":status", Value: strconv.Itoa(x.c.Record.Answered)}}
	for i := range h {
		if headers.ToClient(h[i].Name) && h[i].Name != "transfer-encoding" && !slices.Contains(reply.Remove, h[i].Name) {
			set = append(set, h[i])
		}
	}
	reply.Set, reply.Remove = append(set, reply.Set...), slices.Concat(x.further.stale, reply.Remove)
	return reply
}

// maxPassedHeld bounds how much of an answer that passes is held until it is known whether it is an error.
const maxPassedHeld = 64 << 10

// heldPiece takes a piece of an answer that passes, whose headers wait until it has content or has failed.
func heldPiece(ctx context.Context, x *Exchange, piece []byte, end bool) Reply {
	d := &x.duplex
	reply := x.responseBody(ctx, piece, false)
	if reply.ReplaceBody {
		piece = reply.Body
	}
	if d.body == nil {
		d.body = slices.Clip(piece)
	} else {
		d.body = append(d.body, piece...)
	}
	complete := true
	if end {
		_, complete, _ = x.answer.Watch.End()
		complete = complete && !x.c.Record.Stream // what completes a stream is content
	}
	said := x.answer.Watch.Report()
	if err := answer.FailureOf(said, complete, d.body); err != nil {
		if reply, ok := tryAgain(x, err); ok {
			return reply
		}
	}
	if !end && !reply.End && !said.Said && !said.Failed && len(d.body) < maxPassedHeld {
		return Reply{Wait: true}
	}
	piece, d.body = d.body, nil
	if end && !reply.End {
		reply = x.responseBody(ctx, nil, true)
		piece = append(piece, reply.Body...)
	}
	d.over = reply.End
	return x.release(piece, end || reply.End, nil)
}

// Broken ends the answer to an attempt of Reply.Again that breaks off, or does not come.
func Broken(x *Exchange, err error) Reply {
	switch {
	case x.state == ended || x.duplex.over:
		return Reply{Wait: true}
	case x.duplex.head != nil:
		x.c.Env.Suspects.Suspect(x.c.Provider, x.c.Env.Now())
	}
	switch {
	case x.state == awaitResponse && errors.Is(err, again.ErrNoEnvoy) && x.further.lost != nil:
		x.further.over = true
		x.guardAnswer() // the error is the provider's
		return x.answer.FailUpstream(x.further.lost, "mg_no_envoy")
	case x.state == awaitResponse:
		x.account.Unanswered = errors.Is(err, context.DeadlineExceeded) ||
			metering.Reached(err.Error(), x.c.Env.Now().Sub(x.c.Active.SentAt(x.c.Record.Attempts, x.c.Record.SentAt)))
		e := openai.CodeUpstreamUnavailable.New("The provider could not be reached.")
		if errors.Is(err, context.DeadlineExceeded) {
			e = openai.CodeUpstreamTimeout.New("The provider did not answer in time.")
		}
		return x.answer.FailUpstream(e, "mg_unreached")
	case x.duplex.whole:
		x.salvage(x.duplex.body)
		return lastPiece(x, x.answer.ReplaceByError(provider.ErrTruncated))
	case x.duplex.head != nil:
		return x.answer.FailUpstream(provider.ErrTruncated, "mg_failed_stream")
	}
	x.answer.Sent = true
	_ = x.answer.Fail(provider.ErrTruncated)
	// What has begun can only be broken off, too.
	return Reply{Immediate: &Immediate{Status: http.StatusBadGateway, Header: http.Header{}, Details: "mg_broken"}}
}

// lastPiece sends the end of an answer, unless another attempt follows.
func lastPiece(x *Exchange, reply Reply) Reply {
	if reply.Again != nil {
		return reply
	}
	x.duplex.over = true
	return x.release(reply.Body, true, reply.Set)
}
