// Package limit decides how much of something may be used: requests, tokens, concurrent requests, and money. What a
// request is expected to use is reserved before it goes out, in one atomic step over all of its rules, and settled
// once with what it did use.
//
// It is no library's: golang.org/x/time/rate is one bucket in one process, and here all rules of a request are
// reserved or none is, over replicas too. In memory that takes 2 µs a request (docs/benchmarks-limits.txt).
//
// A rate's window slides. In no minute, wherever it begins, is more admitted than the limit of a
// minute; a window that is aligned to the clock would let twice the limit pass around its border. Budgets, which
// people compare with bills, do follow the calendar (UTC).
package limit

import (
	"context"
	"slices"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Measure is what a rule counts.
type Measure uint8

// Measures.
const (
	Requests Measure = iota
	Tokens           // of input and output
	InputTokens
	OutputTokens
	Concurrency // requests that have begun and not ended
	Cost        // nano-dollars: a billionth of a US dollar
	measures
)

// domains are what limits of the configuration call the measures, and "cost", which budgets count.
var domains = [measures]string{
	Requests: configv1.DomainRequests, Tokens: configv1.DomainTokens, InputTokens: configv1.DomainInputTokens,
	OutputTokens: configv1.DomainOutputTokens, Concurrency: configv1.DomainConcurrency, Cost: "cost",
}

// MeasureOf returns what the limits of a domain count.
func MeasureOf(domain string) (m Measure, ok bool) {
	i := slices.Index(domains[:Cost], domain)
	return Measure(max(i, 0)), i >= 0
}

// String returns the domain of the limits that count it, or "cost".
func (m Measure) String() string { return domains[m] }

// A Window is the time over which a rule counts.
type Window uint8

// Windows. Those of rates slide; Day and Month of a budget are calendar days and months, UTC.
const (
	Now Window = iota // for Concurrency
	Second
	Minute
	Hour
	Day
	CalendarDay
	CalendarMonth
)

// A Rule is a limit that holds for a request, with the counter that it counts in. It is immutable.
type Rule struct {
	// Counter names what is counted together, such as "key/key_01JD/tokens/minute". Rules of equal names share a count;
	// they must have the same measure and window.
	Counter string
	Measure Measure
	Window  Window
	// Limit is the most that is admitted, in the unit of the measure.
	Limit int64
	// Shadow rules count and never refuse.
	Shadow bool
}

// Amounts are amounts by measure.
type Amounts [measures]int64

// A Demand is what one request wants.
type Demand struct {
	// ID is the exchange's, unique. It is for logs.
	ID string
	// Rules that hold for the request. The slice is kept until the reservation is settled and must not be modified.
	Rules []Rule
	// Amounts that are expected: 1 for Requests and Concurrency. Those below 0 are 0, and those above 2^53 are that.
	// Where 0 is expected, a rule refuses only if more than its limit has been used already.
	Amounts Amounts
}

// A State is where a counter stands, for what the client is told.
type State struct {
	// Remaining is what is left of the limit, never below 0.
	Remaining int64
	// Reset is how long it takes until the count is as if nothing had been used, if nothing else is.
	Reset time.Duration
}

// A Decision is the answer to a Demand.
type Decision struct {
	// States are those of the rules, in their order, after the reservation or as they refuse it.
	States []State
	// Refused is the index of the rule that refused, of several the one that does so for longest; -1 where the request is
	// admitted.
	Refused int
	// RetryAfter is how long it takes until the rule that refused can admit the amounts, if nothing else is used; 0 where
	// time does not help: the amount alone is above the limit. Of Concurrency it is a guess.
	RetryAfter time.Duration
	// Degraded says that the store could not be asked: the decision is this process's own.
	Degraded bool
	// Reservation is what is to be settled; nil where the request is refused.
	Reservation Reservation
}

// A Reservation is what was admitted and has not ended.
type Reservation interface {
	// Settle ends it with what was used: the first call counts, later ones do nothing. It does not wait for a store, and
	// returns at once. What was used beyond the reservation is counted all the same; what was reserved beyond it is given
	// back. It is safe for concurrent use.
	Settle(used Amounts)
}

// A Past is an amount that was used before, until a time at the latest.
type Past struct {
	Counter string
	Window  Window
	At      time.Time
	Amount  int64
}

// A Limiter admits requests. It is safe for concurrent use.
type Limiter interface {
	// Reserve decides on a demand. Either all rules admit it, and all count it, or none counts anything. The error is
	// ErrStore: the store is away and the operator has chosen to refuse then.
	Reserve(ctx context.Context, d Demand) (Decision, error)
	// Raise makes a counter of a calendar window at least amount: what the ledger knows to have been spent since at, by
	// anyone. A counter of a period that at is not in is left alone.
	Raise(ctx context.Context, counter string, w Window, at time.Time, amount int64) error
	// Seed makes counters of rates count what was used before this process began. It is to be called once, before
	// anything is reserved or soon after. What does not count any more is left out. A store that several processes share
	// has its own count, and it holds: counters that are in it are left alone. The error is ErrStore where it cannot be
	// asked.
	Seed(ctx context.Context, past []Past) error
	// Peek returns where the counters of rules stand, without reserving anything.
	Peek(ctx context.Context, rules []Rule) ([]State, error)
}
