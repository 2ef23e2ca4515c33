package webhooks

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxAiling is how many deliveries to a webhook that does not answer are tried at once.
	maxAiling = 2
	// firstPutOff and lastPutOff are the shortest and longest pause of a delivery that is not tried for others' sake; it
	// doubles.
	firstPutOff, lastPutOff = 5 * time.Second, 10 * time.Minute
	// maxAge is the age at which an event is not put off any more but given up: after all attempts in the normal case.
	maxAge = 4 * 24 * time.Hour
)

// ailing are webhooks that did not answer the last time. An attempt takes them the whole time there is, and thousands
// of events may wait for one: those for others must not wait behind them. It is safe for concurrent use.
type ailing struct {
	mu      sync.Mutex // guards what follows
	silent  map[string]bool
	running map[string]int // attempts
}

// enter reports whether an attempt may be made; leave ends it.
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

// putOff returns for how long a delivery waits that was put off so many times before.
func putOff(times int) time.Duration {
	d := min(firstPutOff<<min(times, 10), lastPutOff)
	return d/2 + rand.N(d)
}
