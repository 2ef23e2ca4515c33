package limit

import "time"

// What a rate has counted is kept in slots of a 128th of its window. A slot counts until its end is a whole window
// ago: with the current one that makes 129, and a limit that is used up at once is free again after 129/128 of the
// window.
const (
	slotsPerWindow = 128
	slotsThatCount = slotsPerWindow + 1
)

// busyRetry is the guess of when requests that run now will have ended.
const busyRetry = time.Second

// length returns the length of the window of a rate, and 0 of others.
func (w Window) length() time.Duration {
	switch w {
	case Second:
		return time.Second
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return 24 * time.Hour
	default:
		return 0
	}
}

func (w Window) calendar() bool { return w == CalendarDay || w == CalendarMonth }

// slot returns the width of the slots of a rate.
func (w Window) slot() time.Duration { return w.length() / slotsPerWindow }

// period returns the number of the calendar window that t is in; later ones have greater numbers.
func (w Window) period(t time.Time) int64 {
	if w == CalendarDay {
		return t.Unix() / (24 * 60 * 60)
	}
	year, month, _ := t.UTC().Date()
	return int64(year)*12 + int64(month) - 1
}

// left returns how long the calendar window that t is in lasts.
func (w Window) left(t time.Time) time.Duration {
	year, month, day := t.UTC().Date()
	if w == CalendarDay {
		day++
	} else {
		month, day = month+1, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Sub(t)
}

// heldRetry returns when an amount that is not above the limit is admitted, of a window in which something is held
// that no clock ends.
func (w Window) heldRetry(amount, spent, limit int64, t time.Time) time.Duration {
	if w.calendar() && amount > limit-spent {
		return w.left(t)
	}
	return busyRetry
}

// A standing is where the counter of a rule is, and what it says to an amount.
type standing struct {
	used  int64 // with what is held
	reset time.Duration
	// retry is when the amount is admitted, of a rule that refuses it; 0 for never.
	retry   time.Duration
	refuses bool
}

func (s standing) state(r *Rule) State {
	return State{Remaining: max(0, r.Limit-s.used), Reset: s.reset}
}

// add adds where the next rule stands. Of refusals, the one that lasts longest is told.
func (d *Decision) add(i int, r *Rule, s standing) {
	d.States = append(d.States, s.state(r))
	longer := s.retry == 0 || d.RetryAfter != 0 && s.retry > d.RetryAfter
	if s.refuses && (d.Refused < 0 || longer) {
		d.Refused, d.RetryAfter = i, s.retry
	}
}

// exceeds says whether an amount is too much for a rule.
func (r *Rule) exceeds(used, amount int64) bool { return !r.Shadow && amount > r.Limit-used }

// mostAmount bounds an amount: scripts count exactly up to there.
const mostAmount = 1 << 53

// whole returns amounts of which none is negative or absurd.
func (a Amounts) whole() Amounts {
	for i := range a {
		a[i] = min(max(0, a[i]), mostAmount)
	}
	return a
}
