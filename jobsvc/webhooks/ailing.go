package webhooks

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxAiling bounds the concurrent deliveries to a webhook that does not answer.
	maxAiling = 2
	// firstPutOff and lastPutOff are the shortest and longest delay of a delivery to an unresponsive webhook. The delay
	// doubles each time.
	firstPutOff, lastPutOff = 5 * time.Second, 10 * time.Minute
	// maxAge is the age at which a delayed event is dropped: after all attempts of the normal schedule.
	maxAge = 4 * 24 * time.Hour
)

// ailing tracks webhooks that did not answer the last attempt. An attempt to them takes the whole timeout, and
// thousands of events may wait for one. Events for other webhooks must not wait behind them. It is safe for concurrent
// use.
type ailing struct {
	mu      sync.Mutex // guards the fields below
	silent  map[string]bool
	running map[string]int // attempts
}

// enter reports whether an attempt may be made. leave ends it.
func (a *ailing) enter(webhook string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent[webhook] && a.running[webhook] >= maxAiling {
		return false
	}
	a.running[webhook]++
	return true
}

func (a *ailing) leave(webhook, outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running[webhook]--; a.running[webhook] == 0 {
		delete(a.running, webhook)
	}
	switch outcome {
	case timeout, unreachable:
		a.silent[webhook] = true
	default:
		delete(a.silent, webhook)
	}
}

// putOff returns the next delay of a delivery that was delayed that many times.
func putOff(times int) time.Duration {
	d := min(firstPutOff<<min(times, 10), lastPutOff)
	return d/2 + rand.N(d)
}
