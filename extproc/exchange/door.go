package exchange

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// askEvery is how often a limit that has refused is asked again before its time, by one request: it may have been given back
	// to, or another replica was wrong.
	askEvery = time.Second
	// maxShut bounds the refusals that are remembered.
	maxShut = 10_000
	// askAll is how long at most requests are kept out of a limit of tokens: what others want may be less than what was refused, and fit
	// before that does.
	askAll = 5 * time.Second
	// crowded is how long a request is told to wait that would be one too many at the same time.
	crowded = time.Second
)

// A door is what this process knows of limits when a request's headers are in, without asking the store of limits: which of them
// have just refused, and how many requests are inside. Of a limit of requests only those are inside whose body is on its way or
// being read: what would be refused if the others are admitted is not read. Its zero value is ready for use, and it is safe for
// concurrent use.
type door struct {
	mu     sync.Mutex       // guards what follows
	inside map[string]int64 // by counter
	shut   map[string]shut  // likewise
}

// A shut is a limit that has refused.
type shut struct {
	limit, wanted int64
	until         time.Time // when it can admit again
	ask           time.Time // when one request is to ask nevertheless
	all           time.Time // when all are
}

// enter counts a request in, of which nothing is known yet but the client. It returns the index of the rule that keeps it out, and for
// how long; -1 where none does.
func (d *door) enter(set *ruleSet, now time.Time) (by int, kept shut) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range set.rules {
		r := &set.rules[i]
		if r.Shadow {
			continue
		}
		if s, known := d.shut[r.Counter]; known && s.limit == r.Limit && now.Before(s.until) && now.Before(s.all) {
			if now.Before(s.ask) {
				return i, s
			}
			s.ask = now.Add(askEvery)
			d.shut[r.Counter] = s
		}
		if isCounted(r) && d.inside[r.Counter] >= r.Limit {
			return i, shut{limit: r.Limit, wanted: 1, until: now.Add(crowded)}
		}
	}
	if d.inside == nil {
		d.inside = map[string]int64{}
	}
	for i := range set.rules {
		if r := &set.rules[i]; isCounted(r) {
			d.inside[r.Counter]++
		}
	}
	return -1, kept
}

// isCounted reports whether a rule counts requests at the door.
func isCounted(r *limit.Rule) bool {
	return !r.Shadow && (r.Measure == limit.Requests || r.Measure == limit.Concurrency)
}

// leave counts a request out of the rules of a measure.
func (d *door) leave(set *ruleSet, m limit.Measure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range set.rules {
		r := &set.rules[i]
		if r.Measure != m || !isCounted(r) {
			continue
		}
		if d.inside[r.Counter]--; d.inside[r.Counter] == 0 {
			delete(d.inside, r.Counter)
		}
	}
}

// learn remembers what the store has decided on a request that has come in under the rules entered.
func (d *door) learn(entered, set *ruleSet, wanted limit.Amounts, decided limit.Decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if decided.Refused < 0 {
		for i := 0; i < len(set.rules) && len(d.shut) > 0; i++ { // of others nothing was asked
			delete(d.shut, set.rules[i].Counter)
		}
		return
	}
	r, state := &set.rules[decided.Refused], decided.States[decided.Refused]
	switch {
	case decided.RetryAfter <= 0, state.Remaining > 0, r.Measure == limit.Concurrency:
		delete(d.shut, r.Counter)
		return // another request may fit, or at any moment
	case r.Measure == limit.Cost && decided.RetryAfter < state.Reset:
		delete(d.shut, r.Counter)
		return // likewise: what is left is only reserved
	case !slices.ContainsFunc(entered.rules, func(known limit.Rule) bool { return known.Counter == r.Counter }):
		return // that it holds is known from the body
	}
	if len(d.shut) >= maxShut {
		clear(d.shut)
	}
	if d.shut == nil {
		d.shut = map[string]shut{}
	}
	s := shut{limit: r.Limit, wanted: wanted[r.Measure], until: now.Add(decided.RetryAfter), ask: now.Add(askEvery)}
	if s.all = s.until; s.wanted > 1 && r.Measure != limit.Cost {
		s.all = now.Add(min(decided.RetryAfter, askAll))
	}
	d.shut[r.Counter] = s
}

// known returns the rules that hold for whatever the client asks.
func (x *Exchange) known() *ruleSet { return x.env.derived(x.config).rules(x.key, "", "", "") }

// enter lets a request in under rules that are known before its body, or returns why not.
func (x *Exchange) enter(ctx context.Context, set *ruleSet) *openai.Error {
	c := &x.charging
	if x.env.Limits == nil || len(set.rules) == 0 {
		return nil
	}
	by, kept := x.env.door.enter(set, x.record.Start)
	if by < 0 {
		c.entered, c.waiting = set, true
		return nil
	}
	if states, err := x.env.Limits.Peek(ctx, set.rules); err == nil {
		c.told = set.tell(limit.Decision{States: states, Refused: by})
	}
	c.rules = set
	decided := limit.Decision{Refused: by, States: make([]limit.State, len(set.rules))}
	if set.rules[by].Limit > 0 {
		decided.RetryAfter = kept.until.Sub(x.record.Start)
		decided.States[by].Reset = decided.RetryAfter
	}
	wanted := limit.Amounts{}
	wanted[set.rules[by].Measure] = kept.wanted
	return x.refused(wanted, decided)
}

// decided has the door no longer count the request in limits of requests: the store does, or will not.
func (x *Exchange) decided() {
	if c := &x.charging; c.waiting {
		c.waiting = false
		x.env.door.leave(c.entered, limit.Requests)
	}
}

// leave has the door forget a request that has ended.
func (x *Exchange) leave() {
	x.decided()
	if c := &x.charging; c.entered != nil {
		x.env.door.leave(c.entered, limit.Concurrency)
		c.entered = nil
	}
}

// mistake refuses a request for what its body says, and counts it: reading it was work. Where that is one too many, the next are
// kept out before they are read.
func (x *Exchange) mistake(ctx context.Context, e *openai.Error, details string) Reply {
	c := &x.charging
	if c.entered != nil && e.Status < http.StatusInternalServerError {
		c.counted = 1
		if set := c.entered.only(limit.Requests); c.held == nil && len(set.rules) > 0 {
			c.rules = set
			_, _ = x.take(ctx, limit.Amounts{limit.Requests: c.counted}) // the client hears of its mistake in any case
		}
	}
	return x.reject(e, details)
}
