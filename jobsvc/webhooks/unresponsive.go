package webhooks

import (
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/webhook"
)

const (
	// maxUnresponsive bounds the concurrent deliveries to a webhook that does not answer.
	maxUnresponsive = 2
	// delay is the mean delay of a delivery that was claimed together with others for the last free attempt.
	delay = 5 * time.Second
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

// full reports whether no attempt may be made now.
func (a *unresponsive) full(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isFull(name)
}

// isFull is full for callers that hold mu.
func (a *unresponsive) isFull(name string) bool {
	return a.silent[name] && a.running[name] >= maxUnresponsive
}

// enter reports whether an attempt may be made. leave ends it.
func (a *unresponsive) enter(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isFull(name) {
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
