package limit

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// ErrFull says that a gate has no place left, not even in its queue.
var ErrFull = errors.New("the queue is full")

// A Gate bounds how many requests are under way at the same time in this process, such as those to one provider. Those
// beyond wait in a queue, first come first served. It is safe for concurrent use, and holds no goroutine.
type Gate struct {
	mu      sync.Mutex // guards all below
	max     int
	queue   int
	active  int
	waiting list.List // of chan struct{}, each closed when its place is free
}

// NewGate returns a gate that lets max requests pass at the same time, and queue wait. A max of 0 is none: all pass.
func NewGate(maximum, queue int) *Gate { return &Gate{max: maximum, queue: queue} }

// Acquire takes a place, and waits for one in the queue. It returns ErrFull at once where the queue is full, and the
// cause of the context's end where that ends first. The place is given back by release, once; more calls do nothing.
func (g *Gate) Acquire(ctx context.Context) (release func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	g.mu.Lock()
	if g.free() {
		defer g.mu.Unlock()
		return g.take(), nil
	}
	if g.waiting.Len() >= g.queue {
		g.mu.Unlock()
		return nil, ErrFull
	}
	turn := make(chan struct{})
	e := g.waiting.PushBack(turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return sync.OnceFunc(g.leave), nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-turn: // it came at the same time, and is for the next
		g.active--
		g.next()
	default:
		g.waiting.Remove(e)
	}
	g.mu.Unlock()
	return nil, context.Cause(ctx)
}

// TryAcquire takes a place if one is free and nobody waits for it. Release is as of Acquire.
func (g *Gate) TryAcquire() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.free() {
		return nil, false
	}
	return g.take(), true
}

// Force takes a place beyond the cap, for a retry of what is under way already: it must not wait behind what is new.
// Release is as of Acquire.
func (g *Gate) Force() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take()
}

// SetLimits changes the limits, in the meaning of NewGate. What is under way or waits already stays.
func (g *Gate) SetLimits(maximum, queue int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.max, g.queue = maximum, queue
	g.next()
}

// Load returns how many are under way and how many wait.
func (g *Gate) Load() (active, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active, g.waiting.Len()
}

func (g *Gate) free() bool { return g.waiting.Len() == 0 && g.room() }

func (g *Gate) room() bool { return g.max <= 0 || g.active < g.max }

func (g *Gate) take() (release func()) {
	g.active++
	return sync.OnceFunc(g.leave)
}

func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active--
	g.next()
}

// next lets in those that wait, as far as there is room.
func (g *Gate) next() {
	for e := g.waiting.Front(); e != nil && g.room(); e = g.waiting.Front() {
		g.active++
		close(g.waiting.Remove(e).(chan struct{}))
	}
}
