// Package limit decides about the use of requests, tokens, concurrent requests, and money. The expected usage of a
// request is reserved before the request is sent, in one atomic step over all of its rules. It is settled once, with
// the actual usage.
//
// No library does this: golang.org/x/time/rate is one bucket in one process. Here a request reserves under all of its
// rules or under none, also over several replicas. In memory that takes 2 µs per request (docs/benchmarks-limits.txt).
//
// The windows of rates slide: no minute, wherever it begins, admits more than the limit per minute. A window that is
// aligned to the clock would admit twice the limit around its border. Budgets follow the calendar (UTC), because
// people compare them with bills.
package limit

import (
	"context"
	"slices"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Measure is the quantity that a rule counts.
type Measure uint8

// Measures.
const (
	Requests Measure = iota
	Tokens           // input and output
	InputTokens
	OutputTokens
	Concurrency // requests that have begun and not ended
	Cost        // nano-dollars: a billionth of a US dollar
	measures
)

// domains are the names of measures in the limits of the configuration, and "cost", which budgets count.
var domains = [measures]string{
	Requests: configv1.DomainRequests, Tokens: configv1.DomainTokens, InputTokens: configv1.DomainInputTokens,
	OutputTokens: configv1.DomainOutputTokens, Concurrency: configv1.DomainConcurrency, Cost: "cost",
}

// MeasureOf returns the measure of a domain.
func MeasureOf(domain string) (m Measure, ok bool) {
	i := slices.Index(domains[:Cost], domain)
	return Measure(max(i, 0)), i >= 0
}

// String returns the domain of the measure, or "cost".
func (m Measure) String() string { return domains[m] }

// A Window is the time over which a rule counts.
type Window uint8

// Windows. Windows of rates slide. CalendarDay and CalendarMonth, for budgets, are calendar days and months in UTC.
const (
	Now Window = iota // for Concurrency
	Second
	Minute
	Hour
	Day
	CalendarDay
	CalendarMonth
)

// A Rule is a limit of a request, with its counter. It is immutable.
type Rule struct {
	// Counter is the name of a counter, such as "key/key_01JD/tokens/minute". Rules with the same name share it. They
	// must have the same measure and window.
	Counter string
	Measure Measure
	Window  Window
	// Limit is the maximum, in the unit of the measure.
	Limit int64
	// Shadow rules count and never refuse.
	Shadow bool
}

// Amounts are amounts by measure.
type Amounts [measures]int64

// A Demand is the expected usage of one request.
type Demand struct {
	// ID is the unique id of the exchange, for logs.
	ID string
	// Rules are the rules of the request. The slice is kept until the reservation is settled and must not be modified.
	Rules []Rule
	// Amounts are the expected amounts: 1 for Requests and Concurrency. They are clamped to 0 and 2^53. For an amount of
	// 0, a rule refuses only if its limit is exceeded already.
	Amounts Amounts
}

// A State is the state of a counter, for the client.
type State struct {
	// Remaining is the rest of the limit, never below 0.
	Remaining int64
	// Reset is the time until nothing counts any more, without further usage.
	Reset time.Duration
}

// A Decision is the answer to a Demand.
type Decision struct {
	// States are the states of the rules, in their order. They include the reservation if the request is admitted.
	States []State
	// Refused is the index of the rule that refused the request, or -1. If several rules refused, it is the one with the
	// longest wait.
	Refused int
	// RetryAfter is the time until the rule that refused can admit the amounts, without further usage. It is 0 if the
	// amount alone exceeds the limit, so that waiting does not help. For Concurrency it is a guess.
	RetryAfter time.Duration
	// Degraded means that the store was not available: this process decided alone.
	Degraded bool
	// Reservation is nil if the request is refused.
	Reservation Reservation
}

// A Reservation has the amounts of an admitted request until it ends.
type Reservation interface {
	// Settle ends the reservation with the actual usage. Only the first call has an effect. It returns at once and does
	// not wait for a store. Usage above the reservation is counted too, and the unused rest is given back. It is safe for
	// concurrent use.
	Settle(used Amounts)
}

// A Past is an amount that was used earlier, at the latest at a time.
type Past struct {
	Counter string
	Window  Window
	At      time.Time
	Amount  int64
}

// A Limiter admits requests. It is safe for concurrent use.
type Limiter interface {
	// Reserve decides about a demand. If all rules admit it, all count it; otherwise none does. The error is ErrStore:
	// the store is not available, and the operator has chosen to refuse requests then.
	Reserve(ctx context.Context, d Demand) (Decision, error)
	// Raise raises a counter of a calendar window to at least amount, the spending in the ledger since at. It has no
	// effect if at is not in the counter's period.
	Raise(ctx context.Context, counter string, w Window, at time.Time, amount int64) error
	// Seed adds usage from before this process to counters of rates. It is called once, before the first reservation or
	// soon after. Usage that does not count any more is ignored. A store that several processes share keeps its own
	// counts: counters in it do not change. The error is ErrStore if the store is not available.
	Seed(ctx context.Context, past []Past) error
	// Peek returns the states of the counters of rules, without a reservation.
	Peek(ctx context.Context, rules []Rule) ([]State, error)
}
