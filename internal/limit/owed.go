package limit

import (
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// owedMost bounds the amounts of sliding windows that wait for the store. More are dropped.
	owedMost = 1 << 17
	// batchMost bounds the entries of one batch.
	batchMost = 512
	// sweptParts is how many parts of the record are swept with each renewal.
	sweptParts = 4
)

// A lease is the name under which this process holds what its running requests use: concurrency, and reserved money.
// Others count it as long as it is renewed.
//
// When the store leaves open whether it counted something, or has taken the lease for dead, the lease is retired: the
// next takes its place, and what the requests of the old one hold is told in absolute amounts, which mends what may be
// wrong. It ends with the last of its requests, and all that was ever counted under its name with it.
type lease struct {
	name       string
	registered atomic.Bool // the store was told of it
	retired    bool
	asking     int // demands of which the answer is not known
	requests   int
	held       map[string]int64 // by counter
	// delta is what held has become less by, and stale are the counters of a retired lease that the store may know
	// wrongly.
	delta map[string]int64
	stale map[string]bool
}

// owed is what the store has to be told.
type owed struct {
	process string

	mu      sync.Mutex // guards all below, and leases
	made    int
	current *lease
	retired []*lease
	rates   map[rateSlot]int64
	spent   map[period]int64
	mine    *record
	dropped int64 // amounts for which there was no room in rates
	sending []entry
	number  int64
}

// A rateSlot is one of a counter.
type rateSlot struct {
	key    string
	window Window
	slot   int64
}

// A period is one of a counter of a calendar window.
type period struct {
	key    string
	window Window
	number int64
}

// An entry is what the script that applies a batch takes for one key.
type entry struct {
	key    string
	kind   string
	at     any // slot, period or lease
	amount int64
}

func newOwed() *owed {
	o := &owed{process: rand.Text(), rates: map[rateSlot]int64{}, spent: map[period]int64{}, mine: newRecord()}
	o.renewLease()
	return o
}

// renewLease makes a new current lease.
func (o *owed) renewLease() {
	o.made++
	o.current = &lease{
		name: fmt.Sprintf("%s.%d", o.process, o.made),
		held: map[string]int64{}, delta: map[string]int64{}, stale: map[string]bool{},
	}
}

// enter returns the lease for a demand, which then leaves it or loses it.
func (o *owed) enter() *lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current.asking++
	return o.current
}

// leave notes the answer to a demand. It returns whether there is something to tell.
func (o *owed) leave(l *lease, uses []use, answer int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.asking--
	switch answer {
	case leaseLost:
		o.retire(l)
	case admitted:
		l.requests++
		for _, u := range uses {
			if u.window.length() == 0 && u.reserved > 0 {
				l.held[u.key] += u.reserved
				if l.retired { // meanwhile
					l.stale[u.key] = true
				}
			}
		}
	}
	return l.retired
}

// lose notes that the answer to a demand will not be known.
func (o *owed) lose(l *lease, uses []use) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.asking--
	o.retire(l)
	for _, u := range uses {
		if u.window.length() == 0 {
			l.stale[u.key] = true
		}
	}
}

// retire ends the time of a lease as the current one, and has all that it holds told again.
func (o *owed) retire(l *lease) {
	for key := range l.held {
		l.stale[key] = true
	}
	if l.retired {
		return
	}
	l.retired = true
	for key := range l.delta {
		l.stale[key] = true
	}
	l.delta = nil
	o.retired = append(o.retired, l)
	o.renewLease()
}

// settle adds what the store is to be told of a reservation. Without a lease nothing is held.
func (o *owed) settle(l *lease, uses []use, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l != nil {
		l.requests--
	}
	o.mine.settle(uses, now)
	for _, u := range uses {
		switch {
		case u.window.length() != 0:
			o.rate(u, now)
			continue
		case u.window.calendar() && u.used > 0:
			o.spent[period{u.key, u.window, u.window.period(now)}] += u.used
		}
		if l != nil && u.reserved > 0 {
			l.release(u)
		}
	}
}

func (o *owed) rate(u use, now time.Time) {
	at, amount := u.slot, u.used-u.reserved
	if amount > 0 {
		at = now.UnixNano() / int64(u.window.slot())
	}
	k := rateSlot{u.key, u.window, at}
	if _, ok := o.rates[k]; !ok && len(o.rates) >= owedMost {
		o.dropped++
	} else if amount != 0 {
		o.rates[k] += amount
	}
}

// sweep forgets a part of what does not count any more.
func (o *owed) sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range sweptParts {
		o.mine.sweep(now)
	}
}

// forget drops the amounts that wait for the store and do not count any more.
func (o *owed) forget(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.rates {
		if k.slot+slotsThatCount < now.UnixNano()/int64(k.window.slot()) {
			delete(o.rates, k)
		}
	}
}

// lost returns how many amounts have been dropped for want of room since it was last called.
func (o *owed) lost() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.dropped
	o.dropped = 0
	return n
}

// admit records what the store has admitted.
func (o *owed) admit(uses []use, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mine.admit(uses, now)
}

// retell makes all that the store was ever told and that still counts be told again, for it has lost it.
func (o *owed) retell(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = nil
	o.rates, o.spent = o.mine.tell(now)
	for _, l := range slices.Concat(o.retired, []*lease{o.current}) {
		o.retire(l)
	}
}

// release gives back what a request held.
func (l *lease) release(u use) {
	if l.held[u.key] -= u.reserved; l.held[u.key] <= 0 {
		delete(l.held, u.key)
	}
	if l.retired {
		l.stale[u.key] = true
	} else {
		l.delta[u.key] -= u.reserved
	}
}

// next returns the batch to send, and its number: the same until it is said to be sent. None is left where it is
// empty.
func (o *owed) next() (number int64, batch []entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sending) == 0 {
		o.number++
		o.gather()
	}
	return o.number, o.sending
}

// sent says that the store has taken the batch.
func (o *owed) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = nil
}

// gather moves what is owed to a batch, as far as there is room.
func (o *owed) gather() {
	add := func(e entry) bool {
		if len(o.sending) == batchMost {
			return false
		}
		o.sending = append(o.sending, e)
		return true
	}
	take(o.current.delta, func(key string, change int64) bool { return add(entry{key, "+", o.current.name, change}) })
	for _, l := range o.retired {
		if l.asking == 0 { // an answer may change what it holds
			take(l.stale, func(key string, _ bool) bool { return add(entry{key, "=", l.name, l.held[key]}) })
		}
	}
	take(o.spent, func(p period, amount int64) bool { return add(entry{p.key, kindOf(p.window), p.number, amount}) })
	take(o.rates, func(s rateSlot, amount int64) bool { return add(entry{s.key, kindOf(s.window), s.slot, amount}) })
}

// take moves what a map holds, until that is refused.
func take[K comparable, V any](m map[K]V, move func(K, V) bool) {
	for k, v := range m {
		if !move(k, v) {
			return
		}
		delete(m, k)
	}
}

// leases returns the names of the leases that are to be renewed, and of those that hold nothing any more. It is urgent
// where one has ended, or the store may not know it.
func (o *owed) leases() (renewed, ended []string, urgent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current.registered.Load() {
		renewed = append(renewed, o.current.name)
	}
	for _, l := range o.retired {
		if l.asking == 0 && l.requests == 0 {
			ended = append(ended, l.name)
		} else {
			renewed = append(renewed, l.name)
		}
		urgent = urgent || l.requests == 0 || len(l.stale) > 0
	}
	return renewed, ended, urgent
}

// end forgets leases that have ended.
func (o *owed) end(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retired = slices.DeleteFunc(o.retired, func(l *lease) bool { return slices.Contains(names, l.name) })
}

// lapse notes that the store does not count what a lease holds.
func (o *owed) lapse(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range slices.Concat(o.retired, []*lease{o.current}) {
		if l.name == name {
			o.retire(l)
			return
		}
	}
}
