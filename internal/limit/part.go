package limit

import (
	"context"
	"slices"
	"time"
)

// Part returns a limiter that admits a part of every limit and budget, at least 1. The part is above 0 and at most 1.
// It is for installations without a common store, such as two regions, that divide the limits among them.
func Part(l Limiter, part float64) Limiter {
	if part == 1 {
		return l
	}
	return partial{l, part}
}

type partial struct {
	whole Limiter
	part  float64
}

func (p partial) scaled(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Limit = scale(rules[i].Limit, p.part)
	}
	return rules
}

// scale returns a part of a limit. It never reduces a limit to 0, which would admit nothing.
func scale(limit int64, part float64) int64 {
	return max(min(limit, 1), int64(float64(limit)*part))
}

// Reserve implements [Limiter].
func (p partial) Reserve(ctx context.Context, d Demand) (Decision, error) {
	d.Rules = p.scaled(d.Rules)
	return p.whole.Reserve(ctx, d)
}

// Raise implements [Limiter].
func (p partial) Raise(ctx context.Context, counter string, w Window, at time.Time, amount int64) error {
	return p.whole.Raise(ctx, counter, w, at, amount)
}

// Seed implements [Limiter].
func (p partial) Seed(ctx context.Context, past []Past) error { return p.whole.Seed(ctx, past) }

// Peek implements [Limiter].
func (p partial) Peek(ctx context.Context, rules []Rule) ([]State, error) {
	return p.whole.Peek(ctx, p.scaled(rules))
}
