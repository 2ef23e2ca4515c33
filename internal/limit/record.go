package limit

import (
	"hash/maphash"
	"maps"
	"time"
)

// recordParts is the number of maps of a record: what is swept at once holds up nobody for long.
const recordParts = 64

// A record is what this process was admitted by the store, by key. With it a store that lost its data is told what it
// counted: the windows then hold across the loss, as far as the processes live that were admitted what they count.
// Slots are those of the store's clock. The lock of owed guards it.
type record struct {
	seed  maphash.Seed
	parts [recordParts]map[string]*counter
	next  int // to be swept
}

func newRecord() *record {
	r := &record{seed: maphash.MakeSeed()}
	for i := range r.parts {
		r.parts[i] = map[string]*counter{}
	}
	return r
}

// moment returns a time of the store's clock as counters see it.
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

// admit records what the store has counted.
func (r *record) admit(uses []use, now time.Time) {
	t := moment(now)
	for _, u := range uses {
		if u.window.length() != 0 && u.reserved > 0 {
			r.counter(u, t).add(u.reserved, u.slot)
		}
	}
}

// settle records what was used.
func (r *record) settle(uses []use, now time.Time) {
	t := moment(now)
	for _, u := range uses {
		if u.window != Now {
			r.counter(u, t).settle(u.reserved, u.used, u.slot, t)
		}
	}
}

// sweep forgets the counters of one part that count nothing any more.
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

// tell returns all that counts.
func (r *record) tell(now time.Time) (rates map[rateSlot]int64, spent map[period]int64) {
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
