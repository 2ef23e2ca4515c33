// Package cache answers requests with the answers that were kept for equal or similar ones, and keeps new ones.
package cache

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/usage"
)

// maxFollow bounds the wait for the answer to an equal request, before the request is sent itself.
const maxFollow = 30 * time.Second

// A Cache is what a response cache has to do with an exchange. Nil, which does nothing, is for one without any cache.
type Cache struct {
	c     *call.Call
	wants cacheControl // of the client
	// The fields below are set if the answer may be kept.
	cache  *respcache.Cache
	key    respcache.Key
	flight *respcache.Flight // that the exchange leads, or waits for; nil: others do not wait for it
	leads  bool
	// What the request is compared by, with requests that are similar; nil: it is not.
	comparison *respcache.Comparison
	media      string // content-type of the answer; empty: it is not kept
	answer     []byte // so far
}

// New returns the cache of an exchange whose request has a header cache-control.
func New(c *call.Call, header string) *Cache { return &Cache{c: c, wants: parseCacheControl(header)} }

// A Verdict is what becomes of a request.
type Verdict uint8

// The values of Verdict.
const (
	Miss    Verdict = iota // it is sent
	Waits                  // Wait says
	Hit                    // it has the answer
	Refused                // it wants no other answer than a kept one, and there is none
	Left                   // its client has left
)

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

// Request returns the answer that was kept for an equal request, or whether to wait for it. Requests are compared as
// clients sent them. Guards are the rules of guardrails that apply. If they have masked some of the request, similar
// requests are of no use: the client's own texts are restored in its answer, and what is compared would be what the
// provider gets to see.
func (x *Cache) Request(guards string, masked bool) (*respcache.Answer, Verdict) {
	if x == nil || !MayBeKept(x.c.Operation) || x.c.NamesOthers() {
		return nil, Miss
	}
	c, r := x.c, &x.c.Request
	cache := c.Config.Caches.For(&c.Record.Subject, r.Model)
	if cache == nil {
		return nil, Miss
	}
	tells := &metering.Cache{Name: cache.Name(), Result: metering.CacheBypass}
	c.Record.Model, c.Record.Label, c.Record.Cache = r.Model, c.Config.Label(r.Model), tells
	if !x.wants.noStore {
		tells.Reason = cache.Refuses(r.Given, c.Offers(), c.Operation.TextAnswer)
	}
	if x.wants.noStore || tells.Reason != "" {
		return nil, x.missed()
	}
	tells.Result, x.cache = metering.CacheMiss, cache
	question := &respcache.Question{Subject: c.Record.Subject, Operation: c.Dialect.Name + " " + c.Operation.Name,
		Path: c.Head.Path, Betas: c.Head.Betas, Stream: c.WantsStream, Model: r.Model,
		Served: c.Derived().ServedBy(r.Model), Guards: guards, Sent: r.Given}
	x.key = cache.Key(question)
	if x.wants.noCache {
		return nil, x.missed()
	}
	var answer *respcache.Answer
	answer, x.flight, x.leads = cache.Ask(x.key, c.Env.Now(), x.wants.maxAge)
	if answer == nil && c.Operation.TextAnswer && !masked {
		x.comparison = cache.Comparison(question)
	}
	switch {
	case answer != nil:
		return x.found(answer, metering.CacheHit)
	case x.leads && !cache.IsRemote() && x.comparison == nil:
		return nil, x.missed()
	}
	return nil, Waits
}

// Wait waits for the answer in Redis, or to an equal request.
func (x *Cache) Wait(ctx context.Context) (*respcache.Answer, Verdict) {
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
		return nil, Left
	}
	return nil, x.missed()
}

// await returns the answer that the flight has, or nil.
func (x *Cache) await(ctx context.Context) (*respcache.Answer, metering.CacheResult) {
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
func (x *Cache) similar(ctx context.Context) *respcache.Answer {
	if x.comparison == nil {
		return nil
	}
	a, how := x.cache.Similar(ctx, x.comparison, x.c.Env.Now(), x.wants.maxAge)
	x.c.Record.Cache.Compared = string(how)
	return a
}

// youngEnough returns an answer that another request got, unless it is older than the client wants: one to a similar
// request is not new.
func (x *Cache) youngEnough(a *respcache.Answer) *respcache.Answer {
	if a != nil && a.Similarity > 0 && x.c.Env.Now().Sub(a.At) > x.wants.maxAge {
		return nil
	}
	return a
}

// missed returns what becomes of a request for which there is no answer.
func (x *Cache) missed() Verdict {
	if x.wants.onlyIfCached {
		return Refused
	}
	return Miss
}

// found notes an answer in the record.
func (x *Cache) found(a *respcache.Answer, how metering.CacheResult) (*respcache.Answer, Verdict) {
	x.endFlight(a, false)
	if a.Similarity > 0 { // also where it is shared
		how = metering.CacheSimilar
	}
	of := x.c.Record.Cache
	of.Result, of.Saved, of.Similarity = how, usage.Nano(a.Cost), a.Similarity
	of.Age = max(x.c.Env.Now().Sub(a.At), 0)
	return a, Hit
}

// Pace returns how many chunks of a kept stream are sent a second; 0: all at once.
func (x *Cache) Pace() int { return x.cache.Pace() }

// Collect has an answer of a media type kept that begins, if it may be.
func (x *Cache) Collect(media string) {
	if x != nil && x.cache != nil && x.c.Record.Answered == http.StatusOK {
		x.media = media
	}
}

// Retried ends the collecting of an answer that another attempt replaces.
func (x *Cache) Retried() {
	if x != nil {
		x.media = ""
	}
}

// Answer adds a piece to the answer that is to be kept. The last piece comes after the exchange has ended.
func (x *Cache) Answer(piece []byte) {
	if x == nil || x.media == "" {
		return
	}
	if len(x.answer)+len(piece) > respcache.MaxAnswer || !x.cache.Hold(len(piece)) {
		x.drop()
		return
	}
	x.answer = append(x.answer, piece...)
	if x.c.Ended && x.c.Record.Outcome == metering.OutcomeFinished {
		x.keep()
	}
}

// keep keeps the complete answer.
func (x *Cache) keep() {
	r := &x.c.Record
	a := &respcache.Answer{At: r.End, Model: r.Upstream, Provider: r.Provider, ContentType: x.media, Dropped: r.Dropped,
		Adjusted: r.Adjusted, Cost: int64(r.Cost), Body: bytes.Clone(x.answer)}
	x.cache.Keep(x.key, a)
	x.cache.Learn(x.comparison, x.key, a.At)
	x.endFlight(a, false)
	x.drop()
}

// drop ends the collecting of an answer. Who waits for it asks for themselves.
func (x *Cache) drop() {
	if x.cache != nil {
		x.cache.Hold(-len(x.answer))
	}
	x.answer, x.media = nil, ""
	x.endFlight(nil, false)
}

// endFlight ends the flight that the exchange leads.
func (x *Cache) endFlight(a *respcache.Answer, again bool) {
	if x.leads {
		x.flight.End(a, again)
		x.flight, x.leads = nil, false
	}
}

// End is called when the exchange ends. An answer that is complete, and that no guardrail has blocked, is kept with
// its last piece.
func (x *Cache) End(blocked bool) {
	switch {
	case x == nil || x.cache == nil:
	case x.c.Record.Outcome != metering.OutcomeFinished:
		x.endFlight(nil, true) // one of those that wait asks in its place
		x.drop()
	case x.media == "" || blocked:
		x.drop()
	}
}

// Close is called after the last piece. An answer that is not kept by then never will be.
func (x *Cache) Close() {
	if x != nil {
		x.drop()
	}
}
