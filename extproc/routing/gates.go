package routing

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// defaultWait bounds the wait of a request for its turn at a provider.
	defaultWait = 10 * time.Second
	// maxWait bounds the configured wait.
	maxWait = 9 * time.Second
)

// Gates bound the concurrent requests of this process to each provider. The zero value is ready for use. Gates are
// safe for concurrent use.
type Gates struct {
	byName sync.Map // name of a provider -> *gate
}

type gate struct {
	*limit.Gate
	config atomic.Pointer[configv1.Concurrency] // that was applied last
}

// of returns the gate of a provider, or nil if it has no bound.
func (g *Gates) of(p *Provider) *limit.Gate {
	c := p.Config.GetConcurrency()
	if c.GetMaxRequests() == 0 {
		return nil
	}
	name := p.Config.GetName()
	found, ok := g.byName.Load(name)
	if !ok {
		found, _ = g.byName.LoadOrStore(name, &gate{Gate: limit.NewGate(int(c.GetMaxRequests()), int(c.GetMaxPending()))})
	}
	known := found.(*gate)
	if known.config.Load() != c {
		known.config.Store(c)
		known.SetLimits(int(c.GetMaxRequests()), int(c.GetMaxPending()))
	}
	return known.Gate
}

// Load returns the active and the waiting requests of a provider. It returns false for a provider that never had a
// bound.
func (g *Gates) Load(provider string) (active, waiting int, ok bool) {
	found, ok := g.byName.Load(provider)
	if !ok {
		return 0, 0, false
	}
	active, waiting = found.(*gate).Gate.Load()
	return active, waiting, true
}

// place takes a place at a provider, and returns the function that releases it. It returns false if no place is free.
func (g *Gates) place(of *Provider) (release func(), ok bool) {
	if gate := g.of(of); gate != nil {
		return gate.TryAcquire()
	}
	return func() {}, true
}

// Wait waits for a place at the first target until ctx ends.
func (p *Plan) Wait(ctx context.Context) error {
	first := p.Targets[0].Provider
	longest := defaultWait
	if w := first.Config.GetConcurrency().GetMaxWait(); w != nil {
		longest = w.AsDuration()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, min(longest, maxWait), ErrWaited)
	defer cancel()
	g := p.gates.of(first)
	if g == nil {
		return nil
	}
	release, err := g.Acquire(ctx)
	if err == nil {
		p.releasePlace = release
	}
	return err
}

// ErrWaited means that a request has waited for its turn as long as it may.
var ErrWaited = errors.New("no place became free in time")

// move takes a place at the provider of a later attempt, without waiting, and releases the place of the previous
// attempt. It fails if the exchange has ended. The caller holds the plan's lock.
func (p *Plan) move(t Target) error {
	if p.ended {
		return errReleased
	}
	if p.gates == nil {
		return nil
	}
	before := p.releasePlace
	p.releasePlace = nil
	if g := p.gates.of(t.Provider); g != nil {
		p.releasePlace = g.Force()
	}
	if before != nil {
		before()
	}
	return nil
}

// ReleasePlace releases the place of the plan for good.
func (p *Plan) ReleasePlace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.releasePlace != nil {
		p.releasePlace()
		p.releasePlace = nil
	}
}
