package exchange

import (
	"context"

	"github.com/modelgate/modelgate/internal/respcache"
)

const headerSimilarity = "x-modelgate-cache-similarity" // of the request whose answer it is

// mayBeCompared reports whether the answer to a similar request is of use: not if the client's own texts, which a
// guardrail has masked, are restored in it. What is compared is then what the provider gets to see.
func (x *Exchange) mayBeCompared() bool {
	return x.c.Operation.TextAnswer && (x.guarded.set == nil || x.guarded.masks.IsEmpty())
}

// similarAnswer returns the answer that was kept for a similar request, or nil.
func (x *Exchange) similarAnswer(ctx context.Context) *respcache.Answer {
	c := x.cached
	if c.comparison == nil {
		return nil
	}
	a, how := c.cache.Similar(ctx, c.comparison, x.c.Env.Now(), c.wants.maxAge)
	x.c.Record.Cache.Compared = string(how)
	return a
}

// youngEnough returns an answer that another request got, unless it is older than the client wants: one to a similar
// request is not new.
func (x *Exchange) youngEnough(a *respcache.Answer) *respcache.Answer {
	if a != nil && a.Similarity > 0 && x.c.Env.Now().Sub(a.At) > x.cached.wants.maxAge {
		return nil
	}
	return a
}
