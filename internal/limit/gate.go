package limit

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// ErrFull means that a gate has no free place, not even in its queue.
var ErrFull = errors.New("the queue is full")

// A Gate bounds the concurrent requests of this process, such as those to one provider. Further requests wait in a
// queue, first come first served. A Gate is safe for concurrent use and needs no goroutine.
type Gate struct {
	mu      sync.Mutex // guards the fields below
	max     int
	queue   int
	active  int
	waiting list.List // of chan struct{}, each closed when its request gets a place
}

// NewGate returns a gate for max concurrent requests and queue waiting ones. If max is 0, there is no bound.
func NewGate(maximum, queue int) *Gate { return &Gate{max: maximum, queue: queue} }

// Acquire takes a place, or waits in the queue for one. If the queue is full, it returns ErrFull at once. If the
// context ends first, it returns the cause. The function release releases the place; only its first call has an
// effect.
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

// TryAcquire takes a place if one is free and nobody waits. For release see Acquire.
func (g *Gate) TryAcquire() (release func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.free() {
		return nil, false
	}
	return g.take(), true
}

// Force takes a place even if none is free. It is for the retry of a running request, which must not wait behind new
// ones. For release see Acquire.
func (g *Gate) Force() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take()
}

// SetLimits changes the limits of NewGate. Running and waiting requests are not affected.
func (g *Gate) SetLimits(maximum, queue int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.max, g.queue = maximum, queue
	g.next()
}

// Load returns the number of running and of waiting requests.
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

// next admits waiting requests while there are free places.
func (g *Gate) next() {
	for e := g.waiting.Front(); e != nil && g.room(); e = g.waiting.Front() {
		g.active++
		close(g.waiting.Remove(e).(chan struct{}))
	}
}
