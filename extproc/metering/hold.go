package metering

import (
	"context"
	"time"

	"github.com/modelgate/modelgate/internal/limit"
)

// A Hold is what a session has reserved for the response that comes next, or for those under way. It grows with them.
// The zero value holds nothing.
type Hold struct {
	parts  []limit.Reservation
	covers limit.Amounts
	room   []int64 // what is left under each rule once the store knows what the hold before gave back
}

// A store that settles in the background has settled after a few steps.
const (
	settleStep  = 20 * time.Millisecond
	settleSteps = 15
)

// Raise reserves what a demand has more than the hold. If a limit has no room for it, the hold takes what is left of
// the limit. The decision has a refusal if nothing is left, or if the hold must be whole and does not fit.
func (h *Hold) Raise(ctx context.Context, l limit.Limiter, d limit.Demand, whole bool) (limit.Decision, error) {
	more := false
	for m := range d.Amounts {
		d.Amounts[m] = max(0, d.Amounts[m]-h.covers[m])
		more = more || d.Amounts[m] > 0
	}
	if !more {
		return limit.Decision{Refused: -1}, nil
	}
	const tries = 3 // others take from the same limit
	steps := settleSteps
	for try := 1; ; try++ {
		decided, err := l.Reserve(ctx, d)
		switch {
		case err != nil:
			return decided, err
		case decided.Refused < 0:
			h.parts = append(h.parts, decided.Reservation)
			for m := range d.Amounts {
				h.covers[m] += d.Amounts[m]
			}
			return decided, nil
		case try == tries, whole && decided.RetryAfter > 0: // without a wait, this process has a part of the limit only
			return decided, nil
		}
		if steps > 0 && h.isUnsettled(&decided) {
			steps--
			try--
			select {
			case <-time.After(settleStep):
				continue
			case <-ctx.Done():
			}
		}
		if used := Exhausted(d.Rules, &decided, limit.Amounts{}); used >= 0 {
			decided.Refused = used
			return decided, nil
		}
		for i := range d.Rules {
			m := d.Rules[i].Measure
			d.Amounts[m] = min(d.Amounts[m], decided.States[i].Remaining)
		}
	}
}

// Follows notes what is left under the rules after a part, before the hold of that part gives back.
func (h *Hold) Follows(rules []limit.Rule, decided *limit.Decision, back limit.Amounts) {
	h.room = nil
	for i := range decided.States {
		h.room = append(h.room, decided.States[i].Remaining+back[rules[i].Measure])
	}
}

// isUnsettled reports whether the rule that refuses may not have got back what the hold before gave back: some stores
// settle in the background.
func (h *Hold) isUnsettled(decided *limit.Decision) bool {
	i := decided.Refused
	return i < len(h.room) && decided.States[i].Remaining < h.room[i]
}

// IsEmpty reports whether nothing is reserved.
func (h *Hold) IsEmpty() bool { return len(h.parts) == 0 }

// Compare returns what is used beyond the hold, and what it gives back when it is settled.
func (h *Hold) Compare(used limit.Amounts) (above, back limit.Amounts) {
	for m := range used {
		above[m], back[m] = max(0, used[m]-h.covers[m]), max(0, h.covers[m]-used[m])
	}
	return above, back
}

// Settle ends the hold with what was used.
func (h *Hold) Settle(used limit.Amounts) {
	for i, part := range h.parts {
		if i > 0 {
			used = limit.Amounts{}
		}
		part.Settle(used)
	}
	*h = Hold{}
}

// Exhausted returns the index of a rule with nothing left, also after amounts are given back, or -1.
func Exhausted(rules []limit.Rule, decided *limit.Decision, back limit.Amounts) int {
	for i := range rules {
		if !rules[i].Shadow && decided.States[i].Remaining+back[rules[i].Measure] <= 0 {
			return i
		}
	}
	return -1
}
