package limit

import (
	"slices"
	"time"
)

// An instant is a point in time on two clocks.
type instant struct {
	since time.Duration // since the start of the limiter, on the monotonic clock: for rates
	wall  time.Time     // for calendar windows
}

func (t instant) slot(w Window) int64 { return int64(t.since / w.slot()) }

// A counter is one count. The lock of its shard guards it.
type counter struct {
	id     id
	slots  []slot // the slots of a rate that are not empty, in order
	sum    int64  // of the slots, or the amount spent in the period of a calendar window
	held   int64  // amounts of running requests, for a calendar window or Concurrency
	period int64
	window Window
	gone   bool // evicted: later settlements go to the counter that replaced it
}

type slot struct{ index, amount int64 }

// advance removes amounts that do not count any more.
func (c *counter) advance(t instant) {
	switch {
	case c == nil:
	case c.window.calendar():
		if p := c.window.period(t.wall); p > c.period {
			c.period, c.sum = p, 0
		}
	case len(c.slots) > 0:
		oldest, n := t.slot(c.window)-countedSlots+1, 0
		for n < len(c.slots) && c.slots[n].index < oldest {
			c.sum -= c.slots[n].amount
			n++
		}
		if n > 0 {
			c.slots = slices.Delete(c.slots, 0, n)
		}
	}
}

// idle reports whether the counter can be removed without effect.
func (c *counter) idle() bool { return c.sum == 0 && c.held == 0 }

// look returns the state of the counter; nil is an empty counter.
func (c *counter) look(r *Rule, amount int64, t instant) windowState {
	var s windowState
	if c != nil {
		s.used = c.sum + c.held
		s.reset = c.reset(t)
	}
	if r.exceeds(s.used, amount) {
		s.refuses = true
		s.retry = c.retry(r, amount, t)
	}
	return s
}

func (c *counter) reset(t instant) time.Duration {
	switch {
	case c.window == Now || c.idle():
		return 0
	case c.window.calendar():
		return c.window.left(t.wall)
	default:
		return c.expiry(c.slots[len(c.slots)-1], t)
	}
}

// expiry returns how long a slot still counts.
func (c *counter) expiry(s slot, t instant) time.Duration {
	return time.Duration(s.index+countedSlots)*c.window.slot() - t.since
}

// retry returns when a refused amount can be admitted, if nothing else is used; 0 is never.
func (c *counter) retry(r *Rule, amount int64, t instant) time.Duration {
	if c == nil || amount > r.Limit {
		return 0
	}
	if c.window.length() == 0 {
		return c.window.heldRetry(amount, c.sum, r.Limit, t.wall)
	}
	need := c.sum + amount - r.Limit
	for _, s := range c.slots {
		if need -= s.amount; need <= 0 {
			return c.expiry(s, t)
		}
	}
	return 0
}

// reserve counts an amount and returns its slot.
func (c *counter) reserve(amount int64, t instant) int64 {
	if c.window.length() == 0 {
		c.held += amount
		return 0
	}
	return c.add(amount, t.slot(c.window))
}

// add counts an amount in a slot, or in the last slot if that is later, and returns the slot.
func (c *counter) add(amount, at int64) int64 {
	// two readings of the clock may arrive in the wrong order
	if last := len(c.slots) - 1; last >= 0 && c.slots[last].index >= at {
		at = c.slots[last].index
		c.slots[last].amount += amount
	} else if amount > 0 {
		c.slots = append(c.slots, slot{at, amount})
	}
	c.sum += amount
	return at
}

// insert counts an amount in an earlier slot, if the slot still counts. The counter has advanced to t.
func (c *counter) insert(amount, at int64, t instant) {
	if now := t.slot(c.window); at <= now-countedSlots || at > now {
		return
	}
	i, found := slices.BinarySearchFunc(c.slots, at, func(s slot, at int64) int { return int(s.index - at) })
	if !found {
		c.slots = slices.Insert(c.slots, i, slot{index: at})
	}
	c.slots[i].amount += amount
	c.sum += amount
}

// settle ends a reservation. The counter has advanced to t.
func (c *counter) settle(reserved, used, at int64, t instant) {
	switch {
	case c.window == Now:
		c.held = max(0, c.held-reserved)
	case c.window.calendar():
		c.held = max(0, c.held-reserved)
		c.sum += used
	case used > reserved:
		c.add(used-reserved, t.slot(c.window))
	case used < reserved:
		c.refund(at, reserved-used)
	}
}

// refund subtracts an amount from a slot, if the slot still counts.
func (c *counter) refund(at, amount int64) {
	i, ok := slices.BinarySearchFunc(c.slots, at, func(s slot, at int64) int { return int(s.index - at) })
	if !ok {
		return
	}
	amount = min(amount, c.slots[i].amount)
	c.sum -= amount
	if c.slots[i].amount -= amount; c.slots[i].amount == 0 {
		c.slots = slices.Delete(c.slots, i, i+1)
	}
}
