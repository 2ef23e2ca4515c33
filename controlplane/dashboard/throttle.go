package dashboard

import (
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxThrottled bounds what a throttle remembers.
const maxThrottled = 10_000

// A throttle bounds attempts by name: so many at once, and then one each while. Nobody is locked out for longer than
// that while. It is safe for concurrent use.
type throttle struct {
	burst int
	each  rate.Limit
	now   func() time.Time

	mu sync.Mutex
	// buckets are guarded by mu. The names are hashed, because whoever attempts chooses how long they are.
	buckets map[[sha256.Size]byte]*rate.Limiter
}

func newThrottle(burst int, each time.Duration, now func() time.Time) *throttle {
	return &throttle{burst: burst, each: rate.Every(each), now: now, buckets: map[[sha256.Size]byte]*rate.Limiter{}}
}

// take counts an attempt. If there were too many, it counts none and returns how long to wait.
func (t *throttle) take(name string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, key := t.now(), sha256.Sum256([]byte(name))
	bucket := t.buckets[key]
	if bucket == nil {
		if len(t.buckets) >= maxThrottled {
			t.forget(now)
		}
		bucket = rate.NewLimiter(t.each, t.burst)
		t.buckets[key] = bucket
	}
	attempt := bucket.ReserveN(now, 1)
	if wait = attempt.DelayFrom(now); wait > 0 {
		attempt.CancelAt(now)
	}
	return wait
}

// giveBack takes back an attempt that was good.
func (t *throttle) giveBack(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if bucket := t.buckets[sha256.Sum256([]byte(name))]; bucket != nil {
		bucket.AllowN(t.now(), -1)
	}
}

// forget removes what no longer counts, and if that is little, anything: whoever has so many addresses is not held
// up by any one of them.
func (t *throttle) forget(now time.Time) {
	for name, bucket := range t.buckets {
		if bucket.TokensAt(now) >= float64(t.burst) || len(t.buckets) > maxThrottled*3/4 {
			delete(t.buckets, name)
		}
	}
}
