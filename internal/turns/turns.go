// Package turns bounds how many requests have work done on them at the same time, and has tenants take turns: one
// tenant's work waits behind a piece of another's, and not behind all of it.
//
// A semaphore is not enough: whoever sends the most requests would have the most turns.
package turns

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrMany says that too many requests of a tenant wait already.
var ErrMany = errors.New("too many requests of the tenant wait for their turn")

// Turns are given to requests. They are made by New and safe for concurrent use; of nil each request has one at once.
type Turns struct {
	most, each, queued int

	mu      sync.Mutex // guards what follows
	running map[string]int
	total   int
	waiting map[string][]*waiter
	order   []string // owners with waiting requests; the first is next
}

type waiter struct{ given chan struct{} }

// New returns turns for so many requests at the same time. One owner has at most all but one of them, and at most so
// many requests that wait.
func New(most, queued int) *Turns {
	return &Turns{most: most, each: max(1, most-1), queued: queued, running: map[string]int{},
		waiting: map[string][]*waiter{}}
}

// Load returns how many requests have a turn, and how many wait.
func (t *Turns) Load() (running, waiting int) {
	if t == nil {
		return 0, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, all := range t.waiting {
		waiting += len(all)
	}
	return t.total, waiting
}

// A Turn is one request's turn. Its zero value has none. One goroutine at a time uses it.
type Turn struct {
	of    *Turns
	owner string
}

// Take waits for a turn, or for the end of ctx. A request that has one gives it to others that wait, and waits for the
// next: so it is called after each piece of work.
func (n *Turn) Take(ctx context.Context, of *Turns, owner string) error {
	if of == nil {
		return ctx.Err()
	}
	of.mu.Lock()
	if n.of != nil {
		if len(of.order) == 0 {
			of.mu.Unlock()
			return nil
		}
		n.giveBack()
	}
	if len(of.order) == 0 && of.hasRoom(owner) {
		of.give(owner)
		n.of, n.owner = of, owner
		of.mu.Unlock()
		return nil
	}
	if len(of.waiting[owner]) >= of.queued {
		of.next()
		of.mu.Unlock()
		return ErrMany
	}
	w := of.wait(owner)
	of.next()
	of.mu.Unlock()
	select {
	case <-w.given:
		n.of, n.owner = of, owner
		return nil
	case <-ctx.Done():
		of.leave(w, owner)
		return ctx.Err()
	}
}

// Release gives the turn back. It may be called more than once.
func (n *Turn) Release() {
	if n.of == nil {
		return
	}
	of := n.of
	of.mu.Lock()
	defer of.mu.Unlock()
	n.giveBack()
	of.next()
}

func (n *Turn) giveBack() {
	n.of.back(n.owner)
	*n = Turn{}
}

func (t *Turns) back(owner string) {
	t.total--
	if t.running[owner]--; t.running[owner] == 0 {
		delete(t.running, owner)
	}
}

func (t *Turns) hasRoom(owner string) bool { return t.total < t.most && t.running[owner] < t.each }

func (t *Turns) give(owner string) {
	t.total++
	t.running[owner]++
}

// wait adds a request to the queue of its owner.
func (t *Turns) wait(owner string) *waiter {
	w := &waiter{make(chan struct{})}
	if len(t.waiting[owner]) == 0 {
		t.order = append(t.order, owner)
	}
	t.waiting[owner] = append(t.waiting[owner], w)
	return w
}

// next gives free turns to waiting requests, one owner after the other.
func (t *Turns) next() {
	for i := 0; i < len(t.order) && t.total < t.most; {
		owner := t.order[i]
		if !t.hasRoom(owner) {
			i++
			continue
		}
		t.give(owner)
		close(t.waiting[owner][0].given)
		t.order = slices.Delete(t.order, i, i+1)
		if t.waiting[owner] = t.waiting[owner][1:]; len(t.waiting[owner]) > 0 {
			t.order = append(t.order, owner)
		} else {
			delete(t.waiting, owner)
		}
		i = 0
	}
}

// leave takes a request that has left out of the queue, or gives back what it was given meanwhile.
func (t *Turns) leave(w *waiter, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[owner], w)
	if i < 0 {
		t.back(owner)
		t.next()
		return
	}
	if t.waiting[owner] = slices.Delete(t.waiting[owner], i, i+1); len(t.waiting[owner]) == 0 {
		delete(t.waiting, owner)
		t.order = slices.DeleteFunc(t.order, func(o string) bool { return o == owner })
	}
}
