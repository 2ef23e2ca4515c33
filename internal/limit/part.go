package limit

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// A Division says how those without a common store, such as two regions, divide every limit and budget.
type Division struct {
	// Part is what one of them admits, above 0 and at most 1. Of each limit it is at least 1.
	Part float64
	// OneLedger means that all of them write into the same ledger. What was spent, and the usage from before a start,
	// is then of all: each admits its part of what is left of a budget, and counts its part of that usage.
	OneLedger bool
}

// Divide returns a limiter that admits a part.
func Divide(l Limiter, d Division) Limiter {
	if d.Part == 1 {
		return l
	}
	return &divided{Division: d, whole: l, spent: map[string]spending{}, periods: map[Window]int64{}}
}

type divided struct {
	Division
	whole Limiter

	mu      sync.RWMutex // guards what follows
	spent   map[string]spending
	periods map[Window]int64 // the latest
}

// A spending is what all installations have spent of a budget.
type spending struct {
	window         Window
	period, amount int64
}

func (d *divided) scaled(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Limit = d.limit(&rules[i])
	}
	return rules
}

// limit returns how far this installation counts. It never reduces what is left to 0, which would admit nothing.
func (d *divided) limit(r *Rule) int64 {
	spent := d.spentOf(r)
	left := r.Limit - spent
	return spent + max(min(left, 1), int64(float64(left)*d.Part))
}

// spentOf returns what all have spent of a budget, and 0 for a rate.
func (d *divided) spentOf(r *Rule) int64 {
	if !r.Window.calendar() {
		return 0
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	s := d.spent[r.Counter]
	if s.period != r.Window.period(time.Now()) {
		return 0
	}
	return min(s.amount, r.Limit)
}

// Reserve implements [Limiter].
func (d *divided) Reserve(ctx context.Context, demand Demand) (Decision, error) {
	demand.Rules = d.scaled(demand.Rules)
	return d.whole.Reserve(ctx, demand)
}

// Raise implements [Limiter].
func (d *divided) Raise(ctx context.Context, counter string, w Window, at time.Time, amount int64) error {
	err := d.whole.Raise(ctx, counter, w, at, amount) // first: a limit that counts further needs it
	if err != nil || !d.OneLedger || !w.calendar() {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := spending{w, w.period(at), amount}
	if now.period > d.periods[w] {
		d.periods[w] = now.period
		maps.DeleteFunc(d.spent, func(_ string, s spending) bool { return s.window == w })
	}
	if before := d.spent[counter]; now.period == d.periods[w] && now.amount > before.amount {
		d.spent[counter] = now
	}
	return nil
}

// Seed implements [Limiter].
func (d *divided) Seed(ctx context.Context, past []Past) error {
	if d.OneLedger {
		past = slices.Clone(past)
		for i := range past {
			past[i].Amount = int64(math.Ceil(float64(past[i].Amount) * d.Part))
		}
	}
	return d.whole.Seed(ctx, past)
}

// Peek implements [Limiter].
func (d *divided) Peek(ctx context.Context, rules []Rule) ([]State, error) {
	return d.whole.Peek(ctx, d.scaled(rules))
}
