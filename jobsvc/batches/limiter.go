package batches

import (
	"context"
	"sync"
	"time"
)

const (
	startLimit = 8 // of requests at once, before anything is known
	minWindow  = 32
	// An average of a window is slow when it is more than slowFactor times the best of late, and slowBy more than that.
	slowFactor = 2
	slowBy     = 100 * time.Millisecond
	// maxPauseTold is for how long a model is left alone at most on the word of one answer.
	maxPauseTold = time.Minute
)

// An outcome is what an answer says about the load.
type outcome int

const (
	served  outcome = iota // the answer says how fast the provider is
	refused                // it has too much to do: 429, 503, 529, or a timeout
	nothing                // it says nothing
)

// A limiter says how many requests of one model are made at once on behalf of one key. It learns that from the
// answers:
//
//   - After each window of successes during which the limit was reached, it grows by one. A window is as many answers
//     as the limit, and at least 32, so that a few long answers are not taken for a slow provider.
//   - A refusal halves it, once for all requests that were under way then, and a retry-after makes all wait.
//   - When a window took more than twice as long on average as the best window of late, our own lines are what queues
//     up at the provider, and live traffic queues behind them. The limit then does not grow but shrinks by a tenth;
//     not below what it began with, because how long answers take also depends on what is asked. Where windows are
//     slow even then, it is not for our lines: the best is forgotten by a tenth with each, so that a provider that has
//     become slow for good is believed.
//
// It is safe for concurrent use.
type limiter struct {
	most float64

	mu      sync.Mutex // guards what follows
	limit   float64
	running int
	waiting []chan struct{}
	paused  time.Time   // nothing begins before
	wake    *time.Timer // at the end of the pause, if something waits for it

	halved  time.Time // refusals of requests that began before say nothing new
	answers int       // in this window
	took    time.Duration
	full    bool          // the limit was reached in this window
	best    time.Duration // average of a window; 0: none yet
}

func newLimiter(most int) *limiter {
	return &limiter{most: float64(most), limit: min(startLimit, float64(most))}
}

// begin waits until a request may be made. A call of end must follow.
func (l *limiter) begin(ctx context.Context) error {
	l.mu.Lock()
	granted := make(chan struct{})
	l.waiting = append(l.waiting, granted)
	l.grant()
	l.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == granted {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return ctx.Err()
		}
	}
	l.running-- // it was granted at the same moment
	l.grant()
	return ctx.Err()
}

// end ends a request. Wait is the pause that the answer asked for; 0: none.
func (l *limiter) end(o outcome, began time.Time, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.running--
	switch o {
	case served:
		l.answers++
		l.took += now.Sub(began)
		if l.answers >= max(minWindow, int(l.limit)) {
			l.learn()
		}
	case refused:
		if !began.Before(l.halved) {
			l.limit, l.halved = max(1, l.limit/2), now
			l.answers, l.took, l.full = 0, 0, false
		}
	}
	if until := now.Add(min(wait, maxPauseTold)); until.After(l.paused) {
		l.paused = until
	}
	l.grant()
}

// learn ends a window.
func (l *limiter) learn() {
	average := l.took / time.Duration(l.answers)
	if l.best == 0 || average < l.best {
		l.best = average
	}
	switch slow := average > slowFactor*l.best && average > l.best+slowBy; {
	case slow && l.limit <= startLimit:
		l.best += l.best / 10
	case slow:
		l.limit = max(startLimit, l.limit*0.9)
	case l.full:
		l.limit = min(l.limit+1, l.most)
	}
	l.answers, l.took, l.full = 0, 0, false
}

// grant lets those begin who may.
func (l *limiter) grant() {
	if len(l.waiting) == 0 {
		return
	}
	if in := time.Until(l.paused); in > 0 {
		if l.wake == nil {
			l.wake = time.AfterFunc(in, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.wake = nil
				l.grant()
			})
		}
		return
	}
	for len(l.waiting) > 0 && l.running < int(l.limit) {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.running++
	}
	l.full = l.full || l.running >= int(l.limit)
}
