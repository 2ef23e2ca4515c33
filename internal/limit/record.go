package limit

import (
	"hash/maphash"
	"maps"
	"time"
)

// recordParts is the number of maps of a record. One map is swept at a time, so that the lock is held only briefly.
const recordParts = 64

// A record has the amounts that the store has admitted to this process, by key. It restores the counts of a store that
// has lost its data, as far as the processes with these amounts still run. Slots are on the store's clock. The lock of
// unsettled guards it.
type record struct {
	seed  maphash.Seed
	parts [recordParts]map[string]*counter
	next  int // to sweep
}

func newRecord() *record {
	r := &record{seed: maphash.MakeSeed()}
	for i := range r.parts {
		r.parts[i] = map[string]*counter{}
	}
	return r
}

// moment converts a time of the store's clock to an instant.
func moment(t time.Time) instant { return instant{since: time.Duration(t.UnixNano()), wall: t} }

func (r *record) counter(u use, t instant) *counter {
	part := r.parts[maphash.String(r.seed, u.key)%recordParts]
	c := part[u.key]
	if c == nil {
		c = &counter{window: u.window}
		part[u.key] = c
	}
	c.advance(t)
	return c
}

// admit records the amounts that the store has counted.
func (r *record) admit(uses []use, now time.Time) {
	t := moment(now)
	for _, u := range uses {
		if u.window.length() != 0 && u.reserved > 0 {
			r.counter(u, t).add(u.reserved, u.slot)
		}
	}
}

// settle records the actual usage.
func (r *record) settle(uses []use, now time.Time) {
	t := moment(now)
	for _, u := range uses {
		if u.window != Now {
			r.counter(u, t).settle(u.reserved, u.used, u.slot, t)
		}
	}
}

// sweep removes the counters of one part that do not count any more.
func (r *record) sweep(now time.Time) {
	t, part := moment(now), &r.parts[r.next]
	r.next = (r.next + 1) % recordParts
	had := len(*part)
	maps.DeleteFunc(*part, func(_ string, c *counter) bool {
		c.advance(t)
		return c.idle()
	})
	if len(*part) < had/2 { // a map does not shrink
		*part = maps.Collect(maps.All(*part))
	}
}

// amounts returns all amounts that count.
func (r *record) amounts(now time.Time) (rates map[rateSlot]int64, spent map[period]int64) {
	rates, spent = map[rateSlot]int64{}, map[period]int64{}
	t := moment(now)
	for _, part := range r.parts {
		for key, c := range part {
			c.advance(t)
			if c.window.calendar() && c.sum > 0 {
				spent[period{key, c.window, c.period}] = c.sum
			}
			for _, s := range c.slots {
				rates[rateSlot{key, c.window, s.index}] = s.amount
			}
		}
	}
	return rates, spent
}
