package limit

import "time"

// The count of a rate is stored in slots of a 128th of its window. A slot counts until its end is a whole window ago.
// With the current slot that makes 129: a limit that is used up at once is free again after 129/128 of the window.
const (
	slotsPerWindow = 128
	countedSlots   = slotsPerWindow + 1
)

// busyRetry is a guess of when running requests will have ended.
const busyRetry = time.Second

// length returns the length of a rate's window, and 0 for others.
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

// Lasts returns for how long an amount counts in a rate's window, and 0 for others.
func (w Window) Lasts() time.Duration { return countedSlots * w.slot() }

func (w Window) calendar() bool { return w == CalendarDay || w == CalendarMonth }

// slot returns the width of a rate's slots.
func (w Window) slot() time.Duration { return w.length() / slotsPerWindow }

// period returns the number of the calendar window that contains t. Later windows have greater numbers.
func (w Window) period(t time.Time) int64 {
	if w == CalendarDay {
		return t.Unix() / (24 * 60 * 60)
	}
	year, month, _ := t.UTC().Date()
	return int64(year)*12 + int64(month) - 1
}

// left returns the remaining time of the calendar window that contains t.
func (w Window) left(t time.Time) time.Duration {
	year, month, day := t.UTC().Date()
	if w == CalendarDay {
		day++
	} else {
		month, day = month+1, 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Sub(t)
}

// heldRetry returns the retry time of an amount within the limit, in a window with held amounts, whose release no
// clock predicts.
func (w Window) heldRetry(amount, spent, limit int64, t time.Time) time.Duration {
	if w.calendar() && amount > limit-spent {
		return w.left(t)
	}
	return busyRetry
}

// A windowState is the state of a rule's counter, and its decision about an amount.
type windowState struct {
	used  int64 // including held amounts
	reset time.Duration
	// retry is the time until a refused amount is admitted; 0 is never.
	retry   time.Duration
	refuses bool
}

func (s windowState) state(r *Rule) State {
	return State{Remaining: max(0, r.Limit-s.used), Reset: s.reset}
}

// add adds the state of the next rule. Of several refusals, the longest one is reported.
func (d *Decision) add(i int, r *Rule, s windowState) {
	d.States = append(d.States, s.state(r))
	longer := s.retry == 0 || d.RetryAfter != 0 && s.retry > d.RetryAfter
	if s.refuses && (d.Refused < 0 || longer) {
		d.Refused, d.RetryAfter = i, s.retry
	}
}

// exceeds reports whether an amount is too much for a rule.
func (r *Rule) exceeds(used, amount int64) bool { return !r.Shadow && amount > r.Limit-used }

// maxAmount bounds an amount: scripts count exactly up to it.
const maxAmount = 1 << 53

// clamp clamps negative and absurd amounts.
func (a Amounts) clamp() Amounts {
	for i := range a {
		a[i] = min(max(0, a[i]), maxAmount)
	}
	return a
}
