package webhooks

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	// maxUnresponsive bounds the concurrent deliveries to a webhook that does not answer.
	maxUnresponsive = 2
	// firstDelay and maxDelay are the shortest and longest delay of a delivery to an unresponsive webhook. The delay
	// doubles each time.
	firstDelay, maxDelay = 5 * time.Second, 10 * time.Minute
	// maxAge is the age at which a delayed event is dropped: after all attempts of the normal schedule.
	maxAge = 4 * 24 * time.Hour
)

// unresponsive tracks webhooks that did not answer the last attempt. An attempt to them takes the whole timeout, and
// thousands of events may wait for one. Events for other webhooks must not wait behind them. It is safe for concurrent
// use.
type unresponsive struct {
	mu      sync.Mutex // guards the fields below
	silent  map[string]bool
	running map[string]int // attempts
}

// enter reports whether an attempt may be made. leave ends it.
func (a *unresponsive) enter(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent[name] && a.running[name] >= maxUnresponsive {
		return false
	}
	a.running[name]++
	return true
}

func (a *unresponsive) leave(name, outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[name]--; a.running[name] == 0 {
		delete(a.running, name)
	}
	switch outcome {
	case webhook.TimedOut, webhook.Unreachable:
		a.silent[name] = true
	default:
		delete(a.silent, name)
	}
}

// putOff returns the next delay of a delivery that was delayed that many times.
func putOff(times int) time.Duration {
	d := min(firstDelay<<min(times, 10), maxDelay)
	return d/2 + rand.N(d)
}
