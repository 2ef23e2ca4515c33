package routing

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// defaultWait is how long a request waits for its turn at a provider.
	defaultWait = 10 * time.Second
	// longestWait bounds that: Envoy waits no longer than 10 s for the reply to a request's body.
	longestWait = 9 * time.Second
)

// Gates bound how many requests each provider gets at once from this process. The zero value is ready for use, and is
// safe for concurrent use.
type Gates struct {
	byName sync.Map // name of a provider -> *gate
}

type gate struct {
	*limit.Gate
	config atomic.Pointer[configv1.Concurrency] // that the gate was set to last
}

// of returns the gate of a provider, or nil where there is no bound.
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

// Load returns how many requests a provider has from this process, and how many wait for their turn. It is false for
// one whose number has never been bounded.
func (g *Gates) Load(provider string) (active, waiting int, ok bool) {
	found, ok := g.byName.Load(provider)
	if !ok {
		return 0, 0, false
	}
	active, waiting = found.(*gate).Gate.Load()
	return active, waiting, true
}

// place takes a place at a provider, and returns what gives it back. It is false where there is none.
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
	ctx, cancel := context.WithTimeoutCause(ctx, min(longest, longestWait), ErrWaited)
	defer cancel()
	g := p.gates.of(first)
	if g == nil {
		return nil
	}
	release, err := g.Acquire(ctx)
	if err == nil {
		p.held = release
	}
	return err
}

// ErrWaited means that a request has waited for its turn as long as it may.
var ErrWaited = errors.New("no place became free in time")

// move takes a place at the provider of a later attempt, which does not wait, and gives that of the one before back.
// It fails where the exchange has ended. The plan is locked.
func (p *Plan) move(t Target) error {
	if p.over {
		return errReleased
	}
	if p.gates == nil {
		return nil
	}
	before := p.held
	p.held = nil
	if g := p.gates.of(t.Provider); g != nil {
		p.held = g.Force()
	}
	if before != nil {
		before()
	}
	return nil
}

// Leave gives the place back that the plan has, for good, and returns the attempts after the first that were begun.
func (p *Plan) Leave() []metering.Retry {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.held != nil {
		p.held()
		p.held = nil
	}
	return p.retries
}
