package webhooks

import (
	"time"

	"github.com/modelgate/modelgate/internal/webhook"
)

// pauses returns the pauses between attempts that Standard Webhooks recommends. The first attempt is made at once.
func pauses() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
		20 * time.Hour, 24 * time.Hour,
	}
}

// maxAfter bounds the receiver's retry-after.
const maxAfter = 24 * time.Hour

// retryAfter returns the time until the next attempt, by the number of failed ones. It returns false if there is none.
func retryAfter(r webhook.Result, failed int) (time.Duration, bool) {
	all := pauses()
	if r.Outcome == webhook.Gone || failed > len(all) {
		return 0, false
	}
	return webhook.Pause(all, failed, r.After, maxAfter), true
}
