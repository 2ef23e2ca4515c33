package access

import (
	"slices"
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// probeInterval is how often one request asks a limit that has refused before its time: it may have got amounts back,
	// or another replica may have been wrong.
	probeInterval = time.Second
	// maxExhausted bounds the remembered refusals.
	maxExhausted = 10_000
	// maxTokenWait bounds the time in which all requests are refused by a limit of tokens: others may want less than the
	// refused request, and fit earlier.
	maxTokenWait = 5 * time.Second
	// concurrencyWait is the retry-after for a request above a limit of concurrency.
	concurrencyWait = time.Second
)

// A Door refuses requests by their headers alone, without the store of limits. It remembers which limits have just
// refused, and counts the requests inside. A request counts for a limit of requests only until its body is read: the
// body of a request that could not be admitted is not read. The zero value is ready for use. A Door is safe for
// concurrent use.
type Door struct {
	mu        sync.Mutex           // guards the fields below
	inside    map[string]int64     // by counter
	exhausted map[string]Exhausted // by counter
}

// An Exhausted limit has refused a request.
type Exhausted struct {
	limit, Wanted int64
	Until         time.Time // when it can admit again
	probe         time.Time // when the next single request may ask
	open          time.Time // when all requests may ask
}

// Enter counts a request before its body is known. If a rule refuses the request, it returns the rule's index and the
// refusal, else -1.
func (d *Door) Enter(set *Rules, now time.Time) (by int, kept Exhausted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range set.Rules {
		r := &set.Rules[i]
		if r.Shadow {
			continue
		}
		if s, known := d.exhausted[r.Counter]; known && s.limit == r.Limit && now.Before(s.Until) && now.Before(s.open) {
			if now.Before(s.probe) {
				return i, s
			}
			s.probe = now.Add(probeInterval)
			d.exhausted[r.Counter] = s
		}
		if isCounted(r) && d.inside[r.Counter] >= r.Limit {
			return i, Exhausted{limit: r.Limit, Wanted: 1, Until: now.Add(concurrencyWait)}
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

// isCounted reports whether the door counts requests for a rule.
func isCounted(r *limit.Rule) bool {
	return !r.Shadow && (r.Measure == limit.Requests || r.Measure == limit.Concurrency)
}

// Leave ends the count of a request for the rules of a measure.
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

// Learn remembers the store's decision on a request that was admitted under the rules entered.
func (d *Door) Learn(entered, set *Rules, wanted limit.Amounts, decided limit.Decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if decided.Refused < 0 {
		for i := 0; i < len(set.Rules) && len(d.exhausted) > 0; i++ { // only these were asked
			delete(d.exhausted, set.Rules[i].Counter)
		}
		return
	}
	r, state := &set.Rules[decided.Refused], decided.States[decided.Refused]
	switch {
	case decided.RetryAfter <= 0, state.Remaining > 0, r.Measure == limit.Concurrency:
		delete(d.exhausted, r.Counter)
		return // another request may fit now or at any moment
	case r.Measure == limit.Cost && decided.RetryAfter < state.Reset:
		delete(d.exhausted, r.Counter)
		return // the rest is only reserved and may come back
	case !slices.ContainsFunc(entered.Rules, func(known limit.Rule) bool { return known.Counter == r.Counter }):
		return // the rule applies only by the body
	}
	if len(d.exhausted) >= maxExhausted {
		clear(d.exhausted)
	}
	if d.exhausted == nil {
		d.exhausted = map[string]Exhausted{}
	}
	s := Exhausted{limit: r.Limit, Wanted: wanted[r.Measure], Until: now.Add(decided.RetryAfter),
		probe: now.Add(probeInterval)}
	if s.open = s.Until; s.Wanted > 1 && r.Measure != limit.Cost {
		s.open = now.Add(min(decided.RetryAfter, maxTokenWait))
	}
	d.exhausted[r.Counter] = s
}
