// Package cache answers requests with the answers that were kept for equal or similar ones, and keeps new ones.
package cache

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/usage"
)

// maxFollow bounds the wait for the answer to an equal request, before the request is sent itself.
const maxFollow = 30 * time.Second

// A filter is what a response cache has to do with an exchange.
type filter struct {
	c     *call.Call
	wants cacheControl // of the client
	// The fields below are set if the answer may be kept.
	cache  *respcache.Cache
	key    respcache.Key
	flight *respcache.Flight // that the exchange leads, or waits for; nil: others do not wait for it
	leads  bool
	waits  bool // for the answer in Redis, or to an equal request
	// What the request is compared by, with requests that are similar; nil: it is not.
	comparison *respcache.Comparison
	answer     []byte // so far
	over       bool   // nothing more is kept
}

// New returns the filter of a request; nil if no cache may have its answer.
func New(a *account.Account) call.Filter {
	c := a.Call
	if len(c.Config.Caches) == 0 || c.Request.Body == nil || !MayBeKept(c.Operation) || c.NamesOthers() {
		return nil
	}
	cache := c.Config.Caches.For(&c.Record.Subject, c.Request.Model)
	if cache == nil {
		return nil
	}
	return &filter{c: c, cache: cache, wants: parseCacheControl(c.CacheControl)}
}

// cacheControl is the header of a request, as RFC 9111 defines it.
type cacheControl struct {
	noStore, noCache, onlyIfCached bool
	maxAge                         time.Duration
}

func parseCacheControl(header string) cacheControl {
	said := cacheControl{maxAge: 1<<63 - 1}
	for directive := range strings.SplitSeq(strings.ToLower(header), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store":
			said.noStore = true
		case "no-cache":
			said.noCache = true
		case "only-if-cached":
			said.onlyIfCached = true
		case "max-age":
			if n, err := strconv.ParseInt(value, 10, 32); err == nil && n >= 0 {
				said.maxAge = time.Duration(n) * time.Second
			}
		}
	}
	return said
}

// MayBeKept reports whether the answers of an operation can be kept: texts, vectors and rankings, but no media.
func MayBeKept(op *inbound.Operation) bool { return !op.AcceptsForms && !op.Free }

// Request implements call.Filter. Requests are compared as clients sent them. If guardrails have masked some of the
// request, similar requests are of no use: the client's own texts are restored in its answer, and what is compared
// would be what the provider gets to see.
func (x *filter) Request(ctx context.Context) *call.Reply {
	if x.waits {
		return x.wait(ctx)
	}
	c, r, cache := x.c, &x.c.Request, x.cache
	tells := &metering.Cache{Name: cache.Name(), Result: metering.CacheBypass}
	c.Record.Model, c.Record.Label, c.Record.Cache = r.Model, c.Config.Label(r.Model), tells
	if !x.wants.noStore {
		tells.Reason = cache.Refuses(r.Given, c.Offers(), c.Operation.TextAnswer)
	}
	if x.wants.noStore || tells.Reason != "" {
		return x.missed()
	}
	tells.Result = metering.CacheMiss
	question := &respcache.Question{Subject: c.Record.Subject, Operation: c.Dialect.Name + " " + c.Operation.Name,
		Path: c.Head.Path, Betas: c.Head.Betas, Stream: c.WantsStream, Model: r.Model,
		Served: c.Derived().ServedBy(r.Model), Guards: c.Guarded.Rules().Chosen(), Sent: r.Given}
	x.key = cache.Key(question)
	c.Follow(x)
	if x.wants.noCache {
		return x.missed()
	}
	var answer *respcache.Answer
	answer, x.flight, x.leads = cache.Ask(x.key, c.Env.Now(), x.wants.maxAge)
	if answer == nil && c.Operation.TextAnswer && !c.Guarded.Masked() {
		x.comparison = cache.Comparison(question)
	}
	switch {
	case answer != nil:
		return x.found(answer, metering.CacheHit)
	case x.leads && !cache.IsRemote() && x.comparison == nil:
		return x.missed()
	}
	x.waits = true
	if wait := c.Queue(); wait != nil {
		return wait
	}
	return x.wait(ctx)
}

// wait waits for the answer in Redis, or to an equal request.
func (x *filter) wait(ctx context.Context) *call.Reply {
	patient, cancel := context.WithTimeout(ctx, maxFollow)
	defer cancel()
	answer, how := x.await(patient)
	if answer == nil && x.leads {
		answer, how = x.similar(ctx), metering.CacheSimilar
	}
	switch {
	case answer != nil:
		return x.found(answer, how)
	case ctx.Err() != nil:
		return call.Left()
	}
	return x.missed()
}

// await returns the answer that the flight has, or nil.
func (x *filter) await(ctx context.Context) (*respcache.Answer, metering.CacheResult) {
	for {
		if x.leads {
			answer, shared := x.flight.Fetch(ctx, x.c.Env.Now(), x.wants.maxAge)
			if shared {
				return answer, metering.CacheShared
			}
			return answer, metering.CacheHit
		}
		answer, again := x.flight.Wait(ctx)
		if answer = x.youngEnough(answer); answer != nil {
			return answer, metering.CacheShared
		}
		if x.flight = nil; !again {
			return nil, ""
		}
		if answer, x.flight, x.leads = x.cache.Ask(x.key, x.c.Env.Now(), x.wants.maxAge); answer != nil {
			return answer, metering.CacheShared
		}
	}
}

// similar returns the answer that was kept for a similar request, or nil.
func (x *filter) similar(ctx context.Context) *respcache.Answer {
	if x.comparison == nil {
		return nil
	}
	a, how := x.cache.Similar(ctx, x.comparison, x.c.Env.Now(), x.wants.maxAge)
	x.c.Record.Cache.Compared = string(how)
	return a
}

// youngEnough returns an answer that another request got, unless it is older than the client wants: one to a similar
// request is not new.
func (x *filter) youngEnough(a *respcache.Answer) *respcache.Answer {
	if a != nil && a.Similarity > 0 && x.c.Env.Now().Sub(a.At) > x.wants.maxAge {
		return nil
	}
	return a
}

// missed decides on a request for which there is no answer.
func (x *filter) missed() *call.Reply {
	if !x.wants.onlyIfCached {
		return nil
	}
	e := openai.CodeNotCached.New("The request has 'cache-control: only-if-cached', and no answer to it is kept.").Final()
	return x.c.Refuse(e, "mg_not_cached")
}

// found has a kept answer sent, and notes it in the record.
func (x *filter) found(a *respcache.Answer, how metering.CacheResult) *call.Reply {
	x.endFlight(a, false)
	if a.Similarity > 0 { // also if it is shared
		how = metering.CacheSimilar
	}
	of := x.c.Record.Cache
	of.Result, of.Saved, of.Similarity = how, usage.Nano(a.Cost), a.Similarity
	of.Age = max(x.c.Env.Now().Sub(a.At), 0)
	x.c.Kept, x.c.Pace = a, x.cache.Pace()
	return nil
}

// Answer implements call.Follower. It adds a piece to the answer that is to be kept.
func (x *filter) Answer(piece []byte) {
	c := x.c
	finished := c.Record.Outcome == metering.OutcomeFinished
	switch {
	case x.over:
		return
	case c.Ended && !finished:
		x.endFlight(nil, true) // one of those that wait asks in its place
		x.drop()
		return
	case c.Media == "" || c.Record.Answered != http.StatusOK || c.Guarded.HasBlocked():
		if c.Ended {
			x.drop()
		}
		return
	case len(x.answer)+len(piece) > respcache.MaxAnswer || !x.cache.Hold(len(piece)):
		x.drop()
		return
	}
	x.answer = append(x.answer, piece...)
	if c.Ended {
		x.keep()
	}
}

// keep keeps the complete answer.
func (x *filter) keep() {
	r := &x.c.Record
	a := &respcache.Answer{At: r.End, Model: r.Upstream, Provider: r.Provider, ContentType: x.c.Media, Dropped: r.Dropped,
		Adjusted: r.Adjusted, Cost: int64(r.Cost), Body: bytes.Clone(x.answer)}
	x.cache.Keep(x.key, a)
	x.cache.Learn(x.comparison, x.key, a.At)
	x.endFlight(a, false)
	x.drop()
}

// drop ends the collecting of an answer. Who waits for it asks for themselves.
func (x *filter) drop() {
	x.cache.Hold(-len(x.answer))
	x.answer, x.over = nil, true
	x.endFlight(nil, false)
}

// endFlight ends the flight that the exchange leads.
func (x *filter) endFlight(a *respcache.Answer, again bool) {
	if x.leads {
		x.flight.End(a, again)
		x.flight, x.leads = nil, false
	}
}

// End implements call.Follower. An answer that is not kept by then never will be.
func (x *filter) End() {
	x.endFlight(nil, x.c.Record.Outcome != metering.OutcomeFinished)
	x.drop()
}
