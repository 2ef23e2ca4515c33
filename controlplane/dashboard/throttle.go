package dashboard

import (
	"sync"
	"time"
)

// maxThrottled bounds what a throttle remembers.
const maxThrottled = 10_000

// A throttle bounds attempts by name: so many at once, and then one each while. Nobody is locked out for longer than that
// while. It is safe for concurrent use.
type throttle struct {
	burst int
	each  time.Duration
	now   func() time.Time

	mu sync.Mutex
	// until holds when the attempts of a name are forgotten: each adds a while. Guarded by mu.
	until map[string]time.Time
}

func newThrottle(burst int, each time.Duration, now func() time.Time) *throttle {
	return &throttle{burst: burst, each: each, now: now, until: map[string]time.Time{}}
}

// take counts an attempt. Where there were too many, it counts none and returns how long to wait.
func (t *throttle) take(name string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	until := t.until[name]
	if until.Before(now) {
		until = now
	}
	until = until.Add(t.each)
	if wait := until.Sub(now.Add(time.Duration(t.burst) * t.each)); wait > 0 {
		return wait
	}
	if len(t.until) >= maxThrottled {
		t.forget(now)
	}
	t.until[name] = until
	return 0
}

// giveBack takes back an attempt that was good.
func (t *throttle) giveBack(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until[name] = t.until[name].Add(-t.each)
}

// forget removes what no longer counts, and where that is little, anything: whoever has so many addresses is not held up by
// any one of them.
func (t *throttle) forget(now time.Time) {
	for name, until := range t.until {
		if until.Before(now) || len(t.until) > maxThrottled*3/4 {
			delete(t.until, name)
		}
	}
}
