package quota

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// burstPart is the part of a minute's writes that may arrive at once.
const burstPart = 3

// rates limit the writes of accounts at this replica.
type rates struct {
	mu      *sync.Mutex // guards the fields below
	buckets map[store.Account]*rate.Limiter
}

func newRates() rates { return rates{&sync.Mutex{}, map[store.Account]*rate.Limiter{}} }

// take takes one write from all accounts, or refuses and takes none.
func (r rates) take(now time.Time, accounts []store.Account, quotas map[store.Account]*configv1.Quotas) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buckets) >= maxAccounts {
		clear(r.buckets)
	}
	var taken []*rate.Reservation
	for _, a := range accounts {
		minute := quotas[a].GetWritesPerMinute()
		limit, burst := rate.Limit(float64(minute)/60), max(1,
			int(minute/burstPart)) //nolint:gosec // validated to be at most 1,000,000
		bucket := r.buckets[a]
		if bucket == nil {
			bucket = rate.NewLimiter(limit, burst)
			r.buckets[a] = bucket
		} else if bucket.Limit() != limit {
			bucket.SetLimitAt(now, limit)
			bucket.SetBurstAt(now, burst)
		}
		one := bucket.ReserveN(now, 1)
		taken = append(taken, one)
		if wait := one.DelayFrom(now); wait > 0 {
			for _, back := range taken {
				back.CancelAt(now)
			}
			return openai.CodeRateLimitExceeded.New("The quota 'writes_per_minute' of %s is reached: files, uploads, batches and fine-tuning jobs are created, changed and deleted at most %d times a minute. Please try again in %s.",
				a, minute, wait.Round(time.Millisecond)).After(wait)
		}
	}
	return nil
}
