package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A kept quota also counts jobs that have ended.
type kept struct {
	quota   store.Quota
	account store.Account
}

// A leave is when jobs stop counting, as read at a time.
type leave struct {
	after time.Duration
	next  time.Time
	at    time.Time
}

// remembered is how long a leave is cached, because a refused client may retry at once.
const remembered = time.Minute

const sometime = "Those that have ended go when their time of retention is over."

// leave describes when quotas of kept jobs, which nobody can delete, have room again.
func (g *Gate) leave(ctx context.Context, of kept) string {
	if g.Leaves == nil {
		return sometime
	}
	now := g.Now()
	known, ok := g.leaves.Find(of)
	if !ok || now.Sub(known.at) > remembered || now.Before(known.at) {
		after, next, err := g.Leaves(ctx, of.quota, of.account)
		if err != nil {
			return sometime
		}
		known = g.leaves.Keep(of, leave{after, next, now})
	}
	text := fmt.Sprintf("Each stops counting %s after its end, and cannot be deleted before.", known.after)
	switch {
	case known.next.After(now):
		text += fmt.Sprintf(" The next are due at %s.", known.next.UTC().Format(time.RFC3339))
	case !known.next.IsZero():
		text += " The next are due now."
	}
	return text
}

// room describes how to make room.
func (g *Gate) room(ctx context.Context, e *store.QuotaError) string {
	switch q := e.Quota; q {
	case store.KeptBatches, store.KeptFineTuningJobs:
		return g.leave(ctx, kept{q, e.Account})
	case store.OpenBatches:
		return "Wait until batches end, or cancel some."
	case store.Files, store.FileBytes:
		return "Delete files that are not needed, cancel uploads, or give files an expiry. Uploads that are under way count too."
	case store.OpenUploads:
		return "Complete or cancel some: each ends by itself an hour after its creation."
	case store.KeptUploads:
		return "An upload is forgotten a day after its end."
	case store.OpenFineTuningJobs:
		return "Wait until jobs end, or cancel some."
	case store.OpenBackgroundResponses:
		return "Wait until background responses end, or cancel some."
	case store.StoredResponses, store.StoredResponseBytes:
		return "Delete responses and conversations that are not needed, or send 'store': false. Each expires by itself."
	case store.IdempotencyRecords:
		return "Each is forgotten after a day. Requests without an Idempotency-Key need none."
	}
	return "Delete files that are not needed, send less metadata, and fewer requests with an Idempotency-Key, which are remembered for a day."
}

// explained returns the client's error for a used-up quota.
func (g *Gate) explained(ctx context.Context, e *store.QuotaError) error {
	return openai.CodeInsufficientQuota.New("The quota '%s' of %s is used up: %d of %d are in use, and this request needs more than is left. %s Or ask your operator to raise quotas.%s.",
		e.Quota, e.Account, e.Used, e.Limit, g.room(ctx, e), e.Quota).Final()
}
