package webhooks

import (
	"math/rand/v2"
	"time"
)

// pauses are those between attempts, as Standard Webhooks recommends them. The first attempt is made at once.
func pauses() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	}
}

// maxAfter bounds for how long a target can have itself left alone.
const maxAfter = 24 * time.Hour

// retryAfter returns how long it is until the next attempt, when some have failed. It is false where there is none.
func retryAfter(r result, failed int) (time.Duration, bool) {
	all := pauses()
	if r.outcome == gone || failed > len(all) {
		return 0, false
	}
	pause := all[failed-1]
	pause += time.Duration(rand.Int64N(int64(pause) / 5)) // so that what failed together does not come together again
	return max(pause, min(r.after, maxAfter)), true
}
