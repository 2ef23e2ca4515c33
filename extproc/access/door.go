package access

import (
	"slices"
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// askEvery is how often a limit that has refused is asked again before its time, by one request: it may have been
	// given back to, or another replica was wrong.
	askEvery = time.Second
	// maxShut bounds the refusals that are remembered.
	maxShut = 10_000
	// askAll is how long at most requests are kept out of a limit of tokens: what others want may be less than what was
	// refused, and fit before that does.
	askAll = 5 * time.Second
	// crowded is how long a request is told to wait that would be one too many at the same time.
	crowded = time.Second
)

// A Door is what this process knows of limits when a request's headers are in, without asking the store of limits:
// which of them have just refused, and how many requests are inside. Of a limit of requests only those are inside
// whose body is on its way or being read: what would be refused if the others are admitted is not read. Its zero value
// is ready for use, and it is safe for concurrent use.
type Door struct {
	mu     sync.Mutex       // guards what follows
	inside map[string]int64 // by counter
	shut   map[string]Shut  // likewise
}

// A Shut is a limit that has refused.
type Shut struct {
	limit, Wanted int64
	Until         time.Time // when it can admit again
	ask           time.Time // when one request is to ask nevertheless
	all           time.Time // when all are
}

// Enter counts a request in, of which nothing is known yet but the client. It returns the index of the rule that keeps
// it out, and for how long; -1 where none does.
func (d *Door) Enter(set *Rules, now time.Time) (by int, kept Shut) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range set.Rules {
		r := &set.Rules[i]
		if r.Shadow {
			continue
		}
		if s, known := d.shut[r.Counter]; known && s.limit == r.Limit && now.Before(s.Until) && now.Before(s.all) {
			if now.Before(s.ask) {
				return i, s
			}
			s.ask = now.Add(askEvery)
			d.shut[r.Counter] = s
		}
		if isCounted(r) && d.inside[r.Counter] >= r.Limit {
			return i, Shut{limit: r.Limit, Wanted: 1, Until: now.Add(crowded)}
		}
	}
	if d.inside == nil {
		d.inside = map[string]int64{}
	}
	for i := range set.Rules {
		if r := &set.Rules[i]; isCounted(r) {
			d.inside[r.Counter]++
		}
	}
	return -1, kept
}

// isCounted reports whether a rule counts requests at the door.
func isCounted(r *limit.Rule) bool {
	return !r.Shadow && (r.Measure == limit.Requests || r.Measure == limit.Concurrency)
}

// Leave counts a request out of the rules of a measure.
func (d *Door) Leave(set *Rules, m limit.Measure) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range set.Rules {
		r := &set.Rules[i]
		if r.Measure != m || !isCounted(r) {
			continue
		}
		if d.inside[r.Counter]--; d.inside[r.Counter] == 0 {
			delete(d.inside, r.Counter)
		}
	}
}

// Learn remembers what the store has decided on a request that has come in under the rules entered.
func (d *Door) Learn(entered, set *Rules, wanted limit.Amounts, decided limit.Decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if decided.Refused < 0 {
		for i := 0; i < len(set.Rules) && len(d.shut) > 0; i++ { // of others nothing was asked
			delete(d.shut, set.Rules[i].Counter)
		}
		return
	}
	r, state := &set.Rules[decided.Refused], decided.States[decided.Refused]
	switch {
	case decided.RetryAfter <= 0, state.Remaining > 0, r.Measure == limit.Concurrency:
		delete(d.shut, r.Counter)
		return // another request may fit, or at any moment
	case r.Measure == limit.Cost && decided.RetryAfter < state.Reset:
		delete(d.shut, r.Counter)
		return // likewise: what is left is only reserved
	case !slices.ContainsFunc(entered.Rules, func(known limit.Rule) bool { return known.Counter == r.Counter }):
		return // that it holds is known from the body
	}
	if len(d.shut) >= maxShut {
		clear(d.shut)
	}
	if d.shut == nil {
		d.shut = map[string]Shut{}
	}
	s := Shut{limit: r.Limit, Wanted: wanted[r.Measure], Until: now.Add(decided.RetryAfter), ask: now.Add(askEvery)}
	if s.all = s.Until; s.Wanted > 1 && r.Measure != limit.Cost {
		s.all = now.Add(min(decided.RetryAfter, askAll))
	}
	d.shut[r.Counter] = s
}
