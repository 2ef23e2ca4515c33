package batches

import (
	"context"
	"sync"
)

// A budget bounds an amount, such as of memory, that many goroutines have taken. They wait in order.
type budget struct {
	most int64

	mu      sync.Mutex // guards what follows
	used    int64
	waiting []*claimant
}

type claimant struct {
	n       int64
	granted chan struct{}
}

func newBudget(most int64) *budget { return &budget{most: most} }

// take waits until n more fit, or nothing is taken: more than there ever is goes through alone.
func (b *budget) take(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return nil
	}
	c := &claimant{n, make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == c {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.grant()
			return ctx.Err()
		}
	}
	b.used -= n // it was granted at the same moment
	b.grant()
	return ctx.Err()
}

// add takes n without waiting, for memory that is in use already.
func (b *budget) add(n int64) {
	b.mu.Lock()
	b.used += n
	b.mu.Unlock()
}

// put gives n back.
func (b *budget) put(n int64) {
	b.mu.Lock()
	b.used -= n
	b.grant()
	b.mu.Unlock()
}

func (b *budget) fits(n int64) bool { return b.used <= 0 || b.used+n <= b.most }

func (b *budget) grant() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		c := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.used += c.n
		close(c.granted)
	}
}

// take takes memory for a line: from the budget of all batches, and from the job service's.
func (w *work) take(ctx context.Context, n int64) error {
	if err := w.s.memory.take(ctx, n); err != nil {
		return err
	}
	if err := w.held.Await(ctx, n); err != nil {
		w.s.memory.put(n)
		return err
	}
	return nil
}

// add is take for memory that is in use already.
func (w *work) add(n int64) {
	w.s.memory.add(n)
	w.held.Owe(n)
}

// put gives back.
func (w *work) put(n int64) {
	w.s.memory.put(n)
	w.held.Give(n)
}
