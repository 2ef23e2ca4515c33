package limit

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	shardCount = 256
	// sweepEvery is the interval at which a shard is swept, while there are requests.
	sweepEvery = 100 * time.Millisecond
	// maxSweep bounds the shards that a single request sweeps.
	maxSweep = 16
	// minTable is the minimum length of a shard's table.
	minTable = 8
	// inline is the largest number of rules with one allocation for a reservation.
	inline = 8
)

// Options are the options of a limiter in memory.
type Options struct {
	// Clock returns the time; nil is time.Now. Rates use the monotonic reading, if there is one.
	Clock func() time.Time
}

// memory is a limiter for one process. Counters are distributed over shards by their hash. A demand locks the shards
// of its counters in the order of their numbers.
type memory struct {
	clock func() time.Time
	start time.Time
	seeds [2]maphash.Seed
	// nextSweep is when the next shard is swept, since start. The field swept counts the swept shards.
	nextSweep atomic.Int64
	swept     atomic.Uint32
	shards    [shardCount]shard
}

// An id is a hash of a counter's name and window. Its 128 bits replace the name, which is not stored.
type id [2]uint64

func (i id) shard() uint8 { return uint8(i[0]) }

// A shard stores its counters in a hash table with open addressing. It has half the cache misses of a map, and it can
// shrink.
type shard struct {
	mu       sync.Mutex // guards the fields below, and the counters
	table    []*counter // a power of two, at most half full
	counters int
	_        [64]byte // keeps the locks of neighbours on different cache lines
}

// place returns the index of a counter in the table, or of the free entry for it.
func (s *shard) place(i id) int {
	at := int(i[1]) & (len(s.table) - 1)
	for s.table[at] != nil && s.table[at].id != i {
		at = (at + 1) & (len(s.table) - 1)
	}
	return at
}

// rebuild makes a table for the counters to keep, with room for as many more.
func (s *shard) rebuild(keep func(*counter) bool) {
	old := slices.DeleteFunc(s.table, func(c *counter) bool { return c == nil || !keep(c) })
	s.counters = len(old)
	s.table = make([]*counter, max(minTable, 2<<bits.Len(uint(len(old)))))
	for _, c := range old {
		s.table[s.place(c.id)] = c
	}
}

// NewMemory returns a limiter that counts in this process. It need not be closed.
func NewMemory(o Options) Limiter {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	m := &memory{clock: o.Clock, start: o.Clock(), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range m.shards {
		m.shards[i].table = make([]*counter, minTable)
	}
	return m
}

func (m *memory) now() instant {
	wall := m.clock()
	return instant{since: wall.Sub(m.start), wall: wall}
}

func (m *memory) id(name string, w Window) id {
	return id{maphash.String(m.seeds[0], name) ^ uint64(w)*0x9e3779b97f4a7c15, maphash.String(m.seeds[1], name)}
}

// A shardSet is a set of shards, which are locked in their order.
type shardSet [shardCount / 64]uint64

func (s *shardSet) add(i uint8) { s[i/64] |= 1 << (i % 64) }

func (s *shardSet) each(do func(i int)) {
	for word, set := range s {
		for ; set != 0; set &= set - 1 {
			do(word*64 + bits.TrailingZeros64(set))
		}
	}
}

func (m *memory) lock(s *shardSet)   { s.each(func(i int) { m.shards[i].mu.Lock() }) }
func (m *memory) unlock(s *shardSet) { s.each(func(i int) { m.shards[i].mu.Unlock() }) }

// find returns a counter without advancing it, or nil. The shard is locked.
func (m *memory) find(i id) *counter {
	s := &m.shards[i.shard()]
	return s.table[s.place(i)]
}

// findOrMake returns a counter advanced to t, and makes it if necessary. The shard is locked.
func (m *memory) findOrMake(i id, w Window, t instant) *counter {
	if c := m.find(i); c != nil {
		c.advance(t)
		return c
	}
	s := &m.shards[i.shard()]
	if 2*(s.counters+1) > len(s.table) {
		s.rebuild(func(*counter) bool { return true })
	}
	c := &counter{id: i, window: w}
	c.advance(t)
	s.table[s.place(i)] = c
	s.counters++
	return c
}

// A memoryReservation has the reserved amounts of a demand.
type memoryReservation struct {
	memory  *memory
	rules   []Rule
	amounts Amounts
	holds   []hold
	settled atomic.Bool

	inlineHolds  [inline]hold
	inlineStates [inline]State
}

// A hold is the reservation of one rule in its counter.
type hold struct {
	counter *counter
	slot    int64 // or shared
}

// shared is the slot of a hold whose counter has a hold of an earlier rule, which counts for both.
const shared = -1

// Reserve implements Limiter.
func (m *memory) Reserve(_ context.Context, d Demand) (Decision, error) {
	t := m.now()
	m.sweep(t)
	r := &memoryReservation{memory: m, rules: d.Rules, amounts: d.Amounts.clamp()}
	r.holds = r.inlineHolds[:0]
	decision := Decision{States: r.inlineStates[:0], Refused: -1}
	var (
		few    [inline]id
		ids    = few[:0]
		locked shardSet
	)
	for i := range d.Rules {
		k := m.id(d.Rules[i].Counter, d.Rules[i].Window)
		ids = append(ids, k)
		locked.add(k.shard())
	}
	m.lock(&locked)
	defer m.unlock(&locked)
	for _, k := range ids { // separate from the next loop, so that the processor loads all counters at once
		r.holds = append(r.holds, hold{counter: m.find(k)})
	}
	for i := range d.Rules {
		rule, c := &d.Rules[i], r.holds[i].counter
		c.advance(t)
		decision.add(i, rule, c.look(rule, r.amounts[rule.Measure], t))
	}
	if decision.Refused < 0 {
		r.take(ids, t)
		for i := range d.Rules {
			decision.States[i] = r.holds[i].counter.look(&d.Rules[i], 0, t).state(&d.Rules[i])
		}
		decision.Reservation = r
	}
	return decision, nil
}

// take counts a demand that all rules admit. The shards are locked.
func (r *memoryReservation) take(ids []id, t instant) {
	for i := range r.rules {
		h, rule := &r.holds[i], &r.rules[i]
		if h.counter == nil {
			h.counter = r.memory.findOrMake(ids[i], rule.Window, t)
		}
		if slices.ContainsFunc(r.holds[:i], func(earlier hold) bool { return earlier.counter == h.counter }) {
			h.slot = shared
		} else {
			h.slot = h.counter.reserve(r.amounts[rule.Measure], t)
		}
	}
}

// Settle implements Reservation. Counters are locked one by one, because nobody compares them.
func (r *memoryReservation) Settle(used Amounts) {
	if r.settled.Swap(true) {
		return
	}
	used = used.clamp()
	m := r.memory
	t := m.now()
	for i := range r.rules {
		h, rule := &r.holds[i], &r.rules[i]
		if h.slot == shared {
			continue
		}
		s := &m.shards[h.counter.id.shard()]
		s.mu.Lock()
		c := h.counter
		if c.gone {
			c = m.findOrMake(m.id(rule.Counter, rule.Window), rule.Window, t)
		}
		c.advance(t)
		c.settle(r.amounts[rule.Measure], used[rule.Measure], h.slot, t)
		s.mu.Unlock()
	}
}

// Raise implements Limiter.
func (m *memory) Raise(_ context.Context, name string, w Window, at time.Time, amount int64) error {
	t := m.now()
	if !w.calendar() || amount <= 0 || w.period(at) != w.period(t.wall) {
		return nil
	}
	i := m.id(name, w)
	s := &m.shards[i.shard()]
	s.mu.Lock()
	defer s.mu.Unlock()
	c := m.findOrMake(i, w, t)
	c.sum = max(c.sum, amount)
	return nil
}

// Seed implements Limiter.
func (m *memory) Seed(_ context.Context, past []Past) error {
	t := m.now()
	for _, p := range past {
		if p.Window.length() == 0 || p.Amount <= 0 {
			continue
		}
		at := instant{since: t.since - max(0, t.wall.Sub(p.At))}
		i := m.id(p.Counter, p.Window)
		s := &m.shards[i.shard()]
		s.mu.Lock()
		m.findOrMake(i, p.Window, t).insert(min(p.Amount, maxAmount), at.slot(p.Window), t)
		s.mu.Unlock()
	}
	return nil
}

// Peek implements Limiter.
func (m *memory) Peek(_ context.Context, rules []Rule) ([]State, error) {
	t := m.now()
	states := make([]State, len(rules))
	for i, rule := range rules {
		k := m.id(rule.Counter, rule.Window)
		s := &m.shards[k.shard()]
		s.mu.Lock()
		c := m.find(k)
		c.advance(t)
		states[i] = c.look(&rule, 0, t).state(&rule)
		s.mu.Unlock()
	}
	return states, nil
}

// sweep removes idle counters. It sweeps one shard per interval since the last sweep, up to a maximum.
func (m *memory) sweep(t instant) {
	due := m.nextSweep.Load()
	if int64(t.since) < due || !m.nextSweep.CompareAndSwap(due, int64(t.since+sweepEvery)) {
		return
	}
	for range min(maxSweep, 1+(int64(t.since)-due)/int64(sweepEvery)) {
		m.shards[m.swept.Add(1)%shardCount].sweep(t)
	}
}

func (s *shard) sweep(t instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := 0
	for _, c := range s.table {
		if c != nil {
			c.advance(t)
			if c.gone = c.idle(); c.gone {
				idle++
			}
		}
	}
	if idle > 0 {
		s.rebuild(func(c *counter) bool { return !c.gone })
	}
}
