package exchange

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// defaultWait is how long a request waits for its turn at a provider.
	defaultWait = 10 * time.Second
	// longestWait bounds that: Envoy waits no longer than 10 s for the reply to a request's body.
	longestWait = 9 * time.Second
)

// Gates bound how many requests each provider gets at once from this process. The zero value is ready for use, and is safe for
// concurrent use.
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

// Load returns how many requests a provider has from this process, and how many wait for their turn. It is false for one whose
// number has never been bounded.
func (e *Env) Load(provider string) (active, waiting int, ok bool) {
	found, ok := e.gates.byName.Load(provider)
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

// wait waits for a place at the first target until ctx ends.
func (p *Plan) wait(ctx context.Context) error {
	first := p.Targets[0].Provider
	longest := defaultWait
	if w := first.Config.GetConcurrency().GetMaxWait(); w != nil {
		longest = w.AsDuration()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, min(longest, longestWait), errWaited)
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

// errWaited means that a request has waited for its turn as long as it may.
var errWaited = errors.New("no place became free in time")

// move takes a place at the provider of a later attempt, which does not wait, and gives that of the one before back. It fails
// where the exchange has ended. The plan is locked.
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

// leave gives the place back that the plan has, for good, and returns the attempts after the first that were begun.
func (p *Plan) leave() []metering.Retry {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.held != nil {
		p.held()
		p.held = nil
	}
	return p.retries
}

// Turn waits until the provider of the first attempt takes another request, after a reply to the request's body that has said
// Queue, and returns the reply in its place. Ctx ends where the client leaves.
func (x *Exchange) Turn(ctx context.Context) Reply {
	reply := x.queued
	x.queued = Reply{}
	switch err := x.active.wait(ctx); {
	case err == nil:
		return x.sendOut(reply)
	case errors.Is(err, limit.ErrFull), errors.Is(err, errWaited):
		return x.reject(overloaded(), "mg_overloaded")
	}
	return Reply{Wait: true} // the client has left
}

func overloaded() *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: "server_is_overloaded",
		Message: "The providers of this model have as many requests as they take at the moment. Please try again later.", RetryAfter: time.Second}
}
