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
	// maxOwed bounds the amounts of sliding windows that wait for the store. Further amounts are dropped.
	maxOwed = 1 << 17
	// maxBatch bounds the entries of one batch.
	maxBatch = 512
	// sweptParts is the number of parts of the record that are swept with each renewal.
	sweptParts = 4
)

// A lease is the name under which this process holds the concurrency and the reserved money of its running requests.
// The store counts it as long as it is renewed.
//
// If the store may or may not have counted something, or has expired the lease, the lease is retired. A new lease
// takes its place. The amounts of the retired lease are then sent as absolute values, which corrects the store. It
// ends with its last request, and everything counted under its name ends with it.
type lease struct {
	name       string
	registered atomic.Bool // the store knows it
	retired    bool
	asking     int // demands without an answer yet
	requests   int
	held       map[string]int64 // by counter
	// delta is by how much held has decreased. The counters in stale, of a retired lease, may be wrong in the store.
	delta map[string]int64
	stale map[string]bool
}

// unsettled has everything that must be sent to the store.
type unsettled struct {
	process string

	mu      sync.Mutex // guards the fields below, and leases
	made    int
	current *lease
	retired []*lease
	rates   map[rateSlot]int64
	spent   map[period]int64
	mine    *record
	dropped int64 // amounts that did not fit into rates
	sending []entry
	number  int64
}

// A rateSlot is a slot of a rate's counter.
type rateSlot struct {
	key    string
	window Window
	slot   int64
}

// A period is a period of a calendar window's counter.
type period struct {
	key    string
	window Window
	number int64
}

// An entry is one key's part of a batch, for the script that applies it.
type entry struct {
	key    string
	kind   string
	at     any // slot, period or lease
	amount int64
}

func newUnsettled() *unsettled {
	o := &unsettled{process: rand.Text(), rates: map[rateSlot]int64{}, spent: map[period]int64{}, mine: newRecord()}
	o.renewLease()
	return o
}

// renewLease makes a new current lease.
func (o *unsettled) renewLease() {
	o.made++
	o.current = &lease{
		name: fmt.Sprintf("%s.%d", o.process, o.made),
		held: map[string]int64{}, delta: map[string]int64{}, stale: map[string]bool{},
	}
}

// enter returns the lease for a demand. The demand then calls leave or lose.
func (o *unsettled) enter() *lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current.asking++
	return o.current
}

// leave records the answer to a demand. It reports whether there is something to send.
func (o *unsettled) leave(l *lease, uses []use, answer int64) bool {
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
				if l.retired { // in the meantime
					l.stale[u.key] = true
				}
			}
		}
	}
	return l.retired
}

// lose records that the answer to a demand will not be known.
func (o *unsettled) lose(l *lease, uses []use) {
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

// retire replaces a lease as the current one, and marks its amounts to be sent again.
func (o *unsettled) retire(l *lease) {
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

// settle adds the amounts of a settled reservation. Without a lease nothing is held.
func (o *unsettled) settle(l *lease, uses []use, now time.Time) {
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

func (o *unsettled) rate(u use, now time.Time) {
	at, amount := u.slot, u.used-u.reserved
	if amount > 0 {
		at = now.UnixNano() / int64(u.window.slot())
	}
	k := rateSlot{u.key, u.window, at}
	if _, ok := o.rates[k]; !ok && len(o.rates) >= maxOwed {
		o.dropped++
	} else if amount != 0 {
		o.rates[k] += amount
	}
}

// sweep removes a part of the amounts that do not count any more.
func (o *unsettled) sweep(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range sweptParts {
		o.mine.sweep(now)
	}
}

// forget drops waiting amounts that do not count any more.
func (o *unsettled) forget(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.rates {
		if k.slot+countedSlots < now.UnixNano()/int64(k.window.slot()) {
			delete(o.rates, k)
		}
	}
}

// lost returns the number of amounts dropped since its last call.
func (o *unsettled) lost() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.dropped
	o.dropped = 0
	return n
}

// admit records the amounts that the store has admitted.
func (o *unsettled) admit(uses []use, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mine.admit(uses, now)
}

// retell marks all amounts that still count to be sent again, because the store has lost them.
func (o *unsettled) retell(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = nil
	o.rates, o.spent = o.mine.amounts(now)
	for _, l := range slices.Concat(o.retired, []*lease{o.current}) {
		o.retire(l)
	}
}

// release gives back an amount that a request held.
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

// next returns the batch to send, and its number. It returns the same batch until sent is called. An empty batch means
// that there is none.
func (o *unsettled) next() (number int64, batch []entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.sending) == 0 {
		o.number++
		o.gather()
	}
	return o.number, o.sending
}

// sent records that the store has applied the batch.
func (o *unsettled) sent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sending = nil
}

// gather moves waiting amounts to a batch, up to its bound.
func (o *unsettled) gather() {
	add := func(e entry) bool {
		if len(o.sending) == maxBatch {
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

// take moves the entries of a map until move returns false.
func take[K comparable, V any](m map[K]V, move func(K, V) bool) {
	for k, v := range m {
		if !move(k, v) {
			return
		}
		delete(m, k)
	}
}

// leases returns the names of the leases to renew, and of the leases that hold nothing any more. The result is
// urgent if one has ended, or if the store may not know it.
func (o *unsettled) leases() (renewed, ended []string, urgent bool) {
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

// end removes leases that have ended.
func (o *unsettled) end(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retired = slices.DeleteFunc(o.retired, func(l *lease) bool { return slices.Contains(names, l.name) })
}

// lapse records that the store does not count the amounts of a lease.
func (o *unsettled) lapse(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range slices.Concat(o.retired, []*lease{o.current}) {
		if l.name == name {
			o.retire(l)
			return
		}
	}
}
