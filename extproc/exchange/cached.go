package exchange

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/filters/cache"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/respcache"
)

const headerSimilarity = "x-modelgate-cache-similarity" // of the request whose answer it is

// recall answers a request with a kept answer, if a cache has one. It may have to wait for it.
func (x *Exchange) recall(ctx context.Context) (Reply, bool) {
	a, v := x.cached.Request(x.guarded.set.Chosen(), x.guarded.set != nil && !x.guarded.masks.IsEmpty())
	return x.recalled(ctx, a, v)
}

// recalled goes on with a request on which a cache has decided.
func (x *Exchange) recalled(ctx context.Context, a *respcache.Answer, v cache.Verdict) (reply Reply, done bool) {
	switch v {
	case cache.Hit:
		return x.hit(ctx, a), true
	case cache.Waits:
		x.state = awaitCached
		return Reply{Queue: true}, true
	case cache.Left:
		return Reply{Wait: true}, true
	case cache.Refused:
		return x.c.Reject(openai.CodeNotCached.New("The request has 'cache-control: only-if-cached', and no answer to it is kept.").Final(), "mg_not_cached"), true
	}
	return Reply{}, false
}

// hit answers with a kept answer. It counts as a request, and uses no tokens and no money.
func (x *Exchange) hit(ctx context.Context, a *respcache.Answer) Reply {
	r := &x.c.Record
	r.User = cmp.Or(r.User, metering.UserOf(&x.c.Request.Request))
	all := x.c.Derived().Rules.Rules(x.c.Key, r.User, r.Model, "").For(x.c.Fits)
	wanted, measures, pace := limit.Amounts{limit.Requests: 1}, []limit.Measure{limit.Requests}, 0
	if x.c.Duplex && a.ContentType == answer.TypeSSE {
		pace = x.cached.Pace()
	}
	if pace > 0 { // it takes its time
		measures, wanted[limit.Concurrency] = append(measures, limit.Concurrency), 1
	}
	if e := x.account.ReserveHit(ctx, all, measures, wanted); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	x.keep.Request(&x.c, all.Bodies)
	r.Status, r.Priced = http.StatusOK, true
	own := Headers{{Name: "content-type", Value: a.ContentType},
		{Name: answer.HeaderCache, Value: string(r.Cache.Result)},
		{Name: "age", Value: strconv.Itoa(int(r.Cache.Age.Seconds()))}, {Name: answer.HeaderProvider, Value: a.Provider}}
	own = answer.AppendKnown(answer.AppendKnown(own, answer.HeaderDropped, a.Dropped), answer.HeaderAdjusted, a.Adjusted)
	if a.Similarity > 0 {
		own = append(own, Header{Name: headerSimilarity, Value: strconv.FormatFloat(a.Similarity, 'f', 3, 64)})
	}
	if x.account.WantsCost {
		own = append(own, Header{Name: answer.HeaderCost, Value: r.Cost.String()})
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
