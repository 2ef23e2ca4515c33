package batches

import (
	"context"
	"sync"
	"time"

	"github.com/modelgate/modelgate/internal/timing"
)

// A pace spreads tokens over time. What a request will use is estimated and taken before, and settled once it is
// known. A request may begin when what was taken is earned, however much it takes itself, so that the rate is kept on
// average and the largest request comes through. A nil pace is none. It is safe for concurrent use.
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
	if err := timing.Sleep(ctx, in); err != nil {
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

// A user is a key that asks a model.
type user struct{ key, model string }

// common is what all batches that ask one model have in common, whoever's they are: what bounds them.
type common struct {
	lines *budget
	pace  *pace
	users int
}

// shared is what all batches of one key that ask one model have in common: how much they may ask is learned from the
// answers, and what slows one key down, such as a limit of its own, is nothing to another.
type shared struct {
	common  *common
	limiter *limiter
	users   int
}

// begin waits until a request that uses about so many tokens may be made. A call of end must follow, and the tokens
// are settled.
func (s *shared) begin(ctx context.Context, tokens int64) error {
	if err := s.common.pace.take(ctx, tokens); err != nil {
		return err
	}
	err := s.limiter.begin(ctx)
	if err == nil {
		if err = s.common.lines.take(ctx, 1); err != nil {
			s.limiter.end(nothing, time.Now(), 0)
		}
	}
	if err != nil {
		s.common.pace.settle(tokens, 0)
	}
	return err
}

func (s *shared) end(v verdict, began time.Time) {
	s.common.lines.put(1)
	s.limiter.end(v.outcome, began, v.wait)
}

// paces are the shared ones, for as long as a batch uses them.
type paces struct {
	limits Limits

	mu     sync.Mutex // guards what follows
	models map[string]*common
	users  map[user]*shared
}

func newPaces(l Limits) *paces {
	return &paces{limits: l, models: map[string]*common{}, users: map[user]*shared{}}
}

func (p *paces) use(u user) *shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.users[u]
	if s == nil {
		c := p.models[u.model]
		if c == nil {
			c = &common{lines: newBudget(int64(p.limits.Lines)), pace: newPace(p.limits.TokensPerMinute)}
			p.models[u.model] = c
		}
		c.users++
		s = &shared{common: c, limiter: newLimiter(p.limits.Lines)}
		p.users[u] = s
	}
	s.users++
	return s
}

func (p *paces) free(u user) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.users[u]
	if s.users--; s.users > 0 {
		return
	}
	delete(p.users, u)
	if s.common.users--; s.common.users == 0 {
		delete(p.models, u.model)
	}
}
