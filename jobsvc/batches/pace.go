package batches

import (
	"context"
	"sync"
	"time"
)

// A pace spreads tokens over time. What a request will use is estimated and taken before, and settled once it is known. A
// request may begin when what was taken is earned, however much it takes itself, so that the rate is kept on average and
// the largest request comes through. A nil pace is none. It is safe for concurrent use.
type pace struct {
	perSecond float64

	mu      sync.Mutex // guards what follows
	balance float64    // of tokens, at most those of a second
	at      time.Time  // when the balance was so
}

func newPace(perMinute int) *pace {
	if perMinute <= 0 {
		return nil
	}
	return &pace{perSecond: float64(perMinute) / 60, at: time.Now()}
}

// take waits for its turn to use about n tokens.
func (p *pace) take(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.earn()
	in := time.Duration(max(0, -p.balance) / p.perSecond * float64(time.Second))
	p.balance -= float64(n)
	p.mu.Unlock()
	if err := wait(ctx, in); err != nil {
		p.settle(n, 0)
		return err
	}
	return nil
}

// settle gives back what was taken but not used, or takes what was used beyond.
func (p *pace) settle(taken, used int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.earn()
	p.balance += float64(taken - used)
}

func (p *pace) earn() {
	now := time.Now()
	p.balance = min(p.balance+now.Sub(p.at).Seconds()*p.perSecond, p.perSecond)
	p.at = now
}

// wait waits for a while, or returns the error of ctx.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shared is what all batches that ask one model have in common.
type shared struct {
	limiter *limiter
	pace    *pace
	users   int
}

// paces are the shared ones, by model, for as long as a batch uses them.
type paces struct {
	limits Limits

	mu  sync.Mutex // guards all and its users
	all map[string]*shared
}

func newPaces(l Limits) *paces { return &paces{limits: l, all: map[string]*shared{}} }

func (p *paces) use(model string) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.all[model]
	if s == nil {
		s = &shared{limiter: newLimiter(p.limits.Lines), pace: newPace(p.limits.TokensPerMinute)}
		p.all[model] = s
	}
	s.users++
	return s
}

func (p *paces) free(model string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.all[model]; s.users > 1 {
		s.users--
	} else {
		delete(p.all, model)
	}
}
