package exchange

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/respcache"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	headerCache = "x-modelgate-cache" // what the response cache did: one of metering's results
	// maxFollow bounds the wait for the answer to an equal request, before the request is sent itself.
	maxFollow = 30 * time.Second
)

// cached is what a response cache has to do with an exchange.
type cached struct {
	wants cacheControl // of the client
	// The fields below are set if the answer may be kept.
	cache  *respcache.Cache
	key    respcache.Key
	flight *respcache.Flight // that the exchange leads, or waits for; nil: others do not wait for it
	leads  bool
	// What the request is compared by, with requests that are similar; nil: it is not.
	comparison *respcache.Comparison
	media      string  // content-type of the answer; empty: it is not kept
	answer     []byte  // so far
	replay     *replay // of a kept stream; nil: the answer is sent at once
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

// recall returns the answer of an equal request, or the wait for it, if a cache has one. Requests are compared as
// clients sent them.
func (x *Exchange) recall(ctx context.Context) (Reply, bool) {
	r := &x.c.Request
	if x.cached == nil || !MayBeKept(x.c.Operation) || x.c.NamesOthers() {
		return Reply{}, false
	}
	cache := x.c.Config.Caches.For(&x.c.Record.Subject, r.Model)
	if cache == nil {
		return Reply{}, false
	}
	c, tells := x.cached, &metering.Cache{Name: cache.Name(), Result: metering.CacheBypass}
	x.c.Record.Model, x.c.Record.Label, x.c.Record.Cache = r.Model, x.c.Config.Label(r.Model), tells
	if !c.wants.noStore {
		tells.Reason = cache.Refuses(r.Given, x.c.Offers(), x.c.Operation.TextAnswer)
	}
	if c.wants.noStore || tells.Reason != "" {
		return x.onlyIfCached()
	}
	tells.Result, c.cache = metering.CacheMiss, cache
	question := &respcache.Question{Subject: x.c.Record.Subject, Operation: x.c.Dialect.Name + " " + x.c.Operation.Name,
		Path: x.c.Head.Path, Betas: x.c.Head.Betas, Stream: x.c.WantsStream, Model: r.Model,
		Served: x.c.Derived().ServedBy(r.Model), Guards: x.guarded.set.Chosen(), Sent: r.Given}
	c.key = cache.Key(question)
	if c.wants.noCache {
		return x.onlyIfCached()
	}
	var answer *respcache.Answer
	if answer, c.flight, c.leads = cache.Ask(c.key, x.c.Env.Now(), c.wants.maxAge); answer == nil && x.mayBeCompared() {
		c.comparison = cache.Comparison(question)
	}
	switch {
	case answer != nil:
		return x.hit(ctx, answer, metering.CacheHit), true
	case c.leads && !cache.IsRemote() && c.comparison == nil:
		return x.onlyIfCached()
	}
	x.state = awaitCached
	return Reply{Queue: true}, true
}

// awaitCached waits for the answer in Redis, or to an equal request. Without one, the request is sent.
func (x *Exchange) awaitCached(ctx context.Context) Reply {
	patient, cancel := context.WithTimeout(ctx, maxFollow)
	defer cancel()
	answer, how := x.awaitFlight(patient)
	if answer == nil && x.cached.leads {
		answer, how = x.similarAnswer(ctx), metering.CacheSimilar
	}
	if answer != nil {
		return x.hit(ctx, answer, how)
	}
	if ctx.Err() != nil { // the client has left
		return Reply{Wait: true}
	}
	if reply, refused := x.onlyIfCached(); refused {
		return reply
	}
	return x.goOn(ctx)
}

// awaitFlight returns the answer that the flight has, or nil.
func (x *Exchange) awaitFlight(ctx context.Context) (*respcache.Answer, metering.CacheResult) {
	c := x.cached
	for {
		if c.leads {
			answer, shared := c.flight.Fetch(ctx, x.c.Env.Now(), c.wants.maxAge)
			if shared {
				return answer, metering.CacheShared
			}
			return answer, metering.CacheHit
		}
		answer, again := c.flight.Wait(ctx)
		if answer = x.youngEnough(answer); answer != nil {
			return answer, metering.CacheShared
		}
		if c.flight = nil; !again {
			return nil, ""
		}
		if answer, c.flight, c.leads = c.cache.Ask(c.key, x.c.Env.Now(), c.wants.maxAge); answer != nil {
			return answer, metering.CacheShared
		}
	}
}

// onlyIfCached refuses a request that wants no other answer than a kept one.
func (x *Exchange) onlyIfCached() (Reply, bool) {
	if !x.cached.wants.onlyIfCached {
		return Reply{}, false
	}
	return x.c.Reject(openai.CodeNotCached.New("The request has 'cache-control: only-if-cached', and no answer to it is kept.").Final(), "mg_not_cached"), true
}

// hit answers with a kept answer. It counts as a request, and uses no tokens and no money.
func (x *Exchange) hit(ctx context.Context, a *respcache.Answer, how metering.CacheResult) Reply {
	r := &x.c.Record
	x.endFlight(a, false)
	if a.Similarity > 0 { // also where it is shared
		how = metering.CacheSimilar
	}
	r.Cache.Result, r.Cache.Saved, r.Cache.Similarity = how, usage.Nano(a.Cost), a.Similarity
	r.User = cmp.Or(r.User, metering.UserOf(&x.c.Request.Request))
	all := x.c.Derived().Rules.Rules(x.c.Key, r.User, r.Model, "").For(x.c.Fits)
	wanted, measures, pace := limit.Amounts{limit.Requests: 1}, []limit.Measure{limit.Requests}, 0
	if x.duplex.on && a.ContentType == contentTypeSSE {
		pace = x.cached.cache.Pace()
	}
	if pace > 0 { // it takes its time
		measures, wanted[limit.Concurrency] = append(measures, limit.Concurrency), 1
	}
	if e := x.account.ReserveHit(ctx, all, measures, wanted); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.keep.Request(&x.c, all.Bodies)
	r.Status, r.Priced, r.Cache.Age = http.StatusOK, true, max(x.c.Env.Now().Sub(a.At), 0)
	own := Headers{{Name: "content-type", Value: a.ContentType}, {Name: headerCache, Value: string(how)},
		{Name: "age", Value: strconv.Itoa(int(r.Cache.Age.Seconds()))}, {Name: headerProvider, Value: a.Provider}}
	own = appendKnown(appendKnown(own, headerDropped, a.Dropped), headerAdjusted, a.Adjusted)
	if a.Similarity > 0 {
		own = append(own, Header{Name: headerSimilarity, Value: strconv.FormatFloat(a.Similarity, 'f', 3, 64)})
	}
	if x.account.WantsCost {
		own = append(own, Header{Name: headerCost, Value: r.Cost.String()})
	}
	if pace > 0 {
		return x.replay(own, a.Body, pace)
	}
	r.Outcome = metering.OutcomeFinished
	x.c.Finish()
	x.account.Note()
	h := http.Header{}
	for _, header := range own {
		h.Set(header.Name, header.Value)
	}
	return x.c.Immediate(http.StatusOK, h, a.Body, "mg_cached")
}

// collects has an answer kept that begins, if it may be.
func (x *Exchange) collects(media string) {
	if x.cached != nil && x.cached.cache != nil && x.c.Record.Answered == http.StatusOK {
		x.cached.media = media
	}
}

// collect adds a piece to the answer that is to be kept. The last piece comes after the exchange has ended.
func (x *Exchange) collect(piece []byte) {
	c := x.cached
	if c.media == "" {
		return
	}
	if len(c.answer)+len(piece) > respcache.MaxAnswer || !c.cache.Hold(len(piece)) {
		x.dropCached()
		return
	}
	c.answer = append(c.answer, piece...)
	if x.state == ended && x.c.Record.Outcome == metering.OutcomeFinished {
		x.keepAnswer()
	}
}

// keepAnswer keeps the complete answer.
func (x *Exchange) keepAnswer() {
	c, r := x.cached, &x.c.Record
	a := &respcache.Answer{At: r.End, Model: r.Upstream, Provider: r.Provider, ContentType: c.media, Dropped: r.Dropped,
		Adjusted: r.Adjusted, Cost: int64(r.Cost), Body: bytes.Clone(c.answer)}
	c.cache.Keep(c.key, a)
	c.cache.Learn(c.comparison, c.key, a.At)
	x.endFlight(a, false)
	x.dropCached()
}

// dropCached ends the collecting of an answer. Who waits for it asks for themselves.
func (x *Exchange) dropCached() {
	c := x.cached
	if c.cache != nil {
		c.cache.Hold(-len(c.answer))
	}
	c.answer, c.media = nil, ""
	x.endFlight(nil, false)
}

// endFlight ends the flight that the exchange leads.
func (x *Exchange) endFlight(a *respcache.Answer, again bool) {
	if c := x.cached; c.leads {
		c.flight.End(a, again)
		c.flight, c.leads = nil, false
	}
}

// endCached is called when the exchange ends. An answer that is complete is kept with its last piece.
func (x *Exchange) endCached() {
	c := x.cached
	switch {
	case c == nil || c.cache == nil:
	case x.c.Record.Outcome != metering.OutcomeFinished:
		x.endFlight(nil, true) // one of those that wait asks in its place
		x.dropCached()
	case c.media == "" || x.guarded.hasBlocked():
		x.dropCached()
	}
}

// closeCached is called after the last piece. An answer that is not kept by then never will be.
func (x *Exchange) closeCached() {
	if x.cached != nil {
		x.dropCached()
	}
}
