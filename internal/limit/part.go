package limit

import (
	"context"
	"slices"
	"time"
)

// Part returns a limiter that admits a part of every limit, above 0 and at most 1, and at least 1: for installations,
// such as those of two regions, that have no store in common and divide the limits among them. Budgets are divided
// likewise.
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

// scale returns a part of a limit. What is not 0 does not become 0, which would let nothing in at all.
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
