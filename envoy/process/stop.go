package process

import (
	"context"
	"errors"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// idleFor is how many times in a row Envoy must have no request before it counts as idle: the next request of a
// connection that is being closed can arrive just after its last answer, and what the access log says of the last ones
// is sent up to 100 ms later.
const idleFor = 8

// Retire has Envoy say in every answer that its connection ends, and say of itself that it is not ready. New
// connections are still taken: who opens them has not heard yet that this Envoy goes. Stop comes after it. Retire may
// be left out.
func (p *Process) Retire(ctx context.Context) {
	p.mu.Lock()
	p.retired = true
	p.mu.Unlock()
	if err := p.tell(ctx); err != nil {
		p.options.Log.Warn("envoy could not be told to end its connections", zap.Error(err))
	}
}

// Divert has Envoy do the same as Retire until away is false: a service that it needs to answer is unavailable, so
// clients with open connections do better to make others, which may lead elsewhere. An Envoy that is started
// meanwhile does the same.
func (p *Process) Divert(ctx context.Context, away bool) error {
	p.mu.Lock()
	p.diverted = away
	p.mu.Unlock()
	return p.tell(ctx)
}

// tell tells Envoy whether its connections are to end.
func (p *Process) tell(ctx context.Context) error {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.mu.Lock()
	ends := p.retired || p.diverted
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if ends {
		return p.admin.FailHealthCheck(ctx)
	}
	return p.admin.PassHealthCheck(ctx)
}

// Stop drains Envoy and ends it: no new connections; then it waits until no request is being served, at most for
// grace; then SIGTERM, and SIGKILL if that does not help. When ctx ends, the waiting ends. Stop returns when the
// child is gone, and may be called more than once.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()

	waiting, cancel := context.WithTimeout(ctx, grace)
	p.drain(waiting)
	cancel()

	p.signal(syscall.SIGTERM)
	term := time.NewTimer(termTimeout)
	defer term.Stop()
	select {
	case <-p.ended:
		return
	case <-ctx.Done():
	case <-term.C:
		p.options.Log.Warn("envoy does not end and is killed")
	}
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// drain returns when Envoy serves no request any more, when it is gone, or when ctx ends.
func (p *Process) drain(ctx context.Context) {
	if p.Pid() == 0 || ctx.Err() != nil {
		return
	}
	var active int64
	idle := 0
	draining := errors.New("it was not asked to") // nil once it is
	err := poll(ctx, func() bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		if draining != nil { // one that was just started again does not answer yet
			draining = p.admin.DrainListeners(ctx)
		}
		// An Envoy that does not answer is not known to be idle.
		n, err := p.admin.ActiveRequests(ctx)
		if err != nil {
			idle = 0
			return false
		}
		active = n
		if n > 0 {
			idle = 0
			return false
		}
		idle++
		return idle == idleFor
	})
	if draining != nil {
		p.options.Log.Warn("envoy could not be told to drain", zap.Error(draining))
	}
	if err != nil {
		p.options.Log.Warn("envoy is stopped before its requests have ended", zap.Int64("requests", active))
	}
}

// signal sends the signal to the present child, if there is one.
func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return
	}
	// The only error is that the child has ended already.
	_ = p.child.Signal(s)
}
