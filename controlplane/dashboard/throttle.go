package dashboard

import (
	"crypto/sha256"
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
	// The names are hashed, because whoever attempts chooses how long they are.
	until map[[sha256.Size]byte]time.Time
}

func newThrottle(burst int, each time.Duration, now func() time.Time) *throttle {
	return &throttle{burst: burst, each: each, now: now, until: map[[sha256.Size]byte]time.Time{}}
}

// take counts an attempt. Where there were too many, it counts none and returns how long to wait.
func (t *throttle) take(name string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), sha256.Sum256([]byte(name))
	until := t.until[key]
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
	t.until[key] = until
	return 0
}

// giveBack takes back an attempt that was good.
func (t *throttle) giveBack(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := sha256.Sum256([]byte(name))
	t.until[key] = t.until[key].Add(-t.each)
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
