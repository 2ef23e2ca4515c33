package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxGuesses is how many wrong tokens may come from one address in a guessWindow.
	maxGuesses  = 20
	guessWindow = time.Minute
	// maxGuessers bounds the memory. Where more addresses than this guess at once, those that follow count together.
	maxGuessers = 10_000
)

// guesses counts wrong tokens by address. It is safe for concurrent use.
type guesses struct {
	now func() time.Time

	mu    sync.Mutex // guards all below
	by    map[string]*guesser
	swept time.Time // when old windows were last deleted
}

type guesser struct {
	since time.Time // when its window began
	count int
}

func newGuesses(now func() time.Time) *guesses { return &guesses{now: now, by: map[string]*guesser{}} }

// wait returns how long an address has to wait, or 0.
func (g *guesses) wait(address string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.by[guesserOf(address)]
	if of == nil && len(g.by) > maxGuessers {
		of = g.by[""]
	}
	if of == nil || of.count < maxGuesses {
		return 0
	}
	return max(of.since.Add(guessWindow).Sub(g.now()), 0)
}

// failed counts a wrong token, and reports whether the address has to wait from now on.
func (g *guesses) failed(address string) (full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, name := g.now(), guesserOf(address)
	of := g.by[name]
	if of == nil && len(g.by) >= maxGuessers {
		g.sweep(now)
		if len(g.by) >= maxGuessers {
			name = ""
			of = g.by[name]
		}
	}
	if of == nil || now.Sub(of.since) >= guessWindow {
		of = &guesser{since: now}
		g.by[name] = of
	}
	of.count++
	return of.count == maxGuesses
}

// sweep deletes the windows that have ended, at most once a second: it reads them all.
func (g *guesses) sweep(now time.Time) {
	if now.Sub(g.swept) < time.Second {
		return
	}
	g.swept = now
	for name, of := range g.by {
		if now.Sub(of.since) >= guessWindow {
			delete(g.by, name)
		}
	}
}

// guesserOf returns what is counted as one: of IPv6 a /64, within which anyone has as many addresses as they like.
func guesserOf(address string) string {
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
