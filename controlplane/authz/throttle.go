package authz

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxAttempts is how many wrong tokens may come from one address in a guessWindow.
	maxAttempts   = 20
	attemptWindow = time.Minute
	// maxAddresses bounds the memory. If more addresses than this guess at once, those that follow count together.
	maxAddresses = 10_000
)

// tokenThrottle counts wrong tokens by address. It is safe for concurrent use.
type tokenThrottle struct {
	now func() time.Time

	mu    sync.Mutex // guards all below
	by    map[string]*attempts
	swept time.Time // when old windows were last deleted
}

type attempts struct {
	since time.Time // when its window began
	count int
}

func newTokenThrottle(now func() time.Time) *tokenThrottle {
	return &tokenThrottle{now: now, by: map[string]*attempts{}}
}

// wait returns how long an address has to wait, or 0.
func (g *tokenThrottle) wait(address string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.by[addressGroup(address)]
	if of == nil && len(g.by) > maxAddresses {
		of = g.by[""]
	}
	if of == nil || of.count < maxAttempts {
		return 0
	}
	return max(of.since.Add(attemptWindow).Sub(g.now()), 0)
}

// failed counts a wrong token, and reports whether the address has to wait from now on.
func (g *tokenThrottle) failed(address string) (full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, name := g.now(), addressGroup(address)
	of := g.by[name]
	if of == nil && len(g.by) >= maxAddresses {
		g.sweep(now)
		if len(g.by) >= maxAddresses {
			name = ""
			of = g.by[name]
		}
	}
	if of == nil || now.Sub(of.since) >= attemptWindow {
		of = &attempts{since: now}
		g.by[name] = of
	}
	of.count++
	return of.count == maxAttempts
}

// sweep deletes the windows that have ended, at most once a second: it reads them all.
func (g *tokenThrottle) sweep(now time.Time) {
	if now.Sub(g.swept) < time.Second {
		return
	}
	g.swept = now
	for name, of := range g.by {
		if now.Sub(of.since) >= attemptWindow {
			delete(g.by, name)
		}
	}
}

// addressGroup returns what is counted as one: of IPv6 a /64, within which anyone has as many addresses as they like.
func addressGroup(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() {
		return address
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
