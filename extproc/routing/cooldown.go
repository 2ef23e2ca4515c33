package routing

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultCooldown is the cooldown of a provider that refuses because of its load and does not send retry-after.
	defaultCooldown = 2 * time.Second
	// maxCooldown bounds the retry-after of a provider.
	maxCooldown = time.Minute
	// StatusOverloaded is Anthropic's status for overload.
	StatusOverloaded = 529
)

// A Cooldown remembers which providers have refused because of their load, and until when. Requests try these
// providers last, so that their first attempts do not fail. Providers with the same credential at the same place share
// a quota and cool down together. The zero value is ready for use. A Cooldown is safe for concurrent use.
type Cooldown struct {
	mu      sync.Mutex // for writers
	periods atomic.Pointer[map[quota]period]
}

// A period has the begin and the end of a cooldown.
type period struct{ since, until time.Time }

// Until returns the end of a provider's cooldown, or the zero time.
func (c *Cooldown) Until(p *Provider, now time.Time) time.Time {
	if spells := c.periods.Load(); spells != nil {
		if s := (*spells)[p.quota]; now.Before(s.until) {
			return s.until
		}
	}
	return time.Time{}
}

// Refused records that a provider refused a request with a status, and its retry-after or 0. Only statuses about load
// start a cooldown. It returns how long that is, or 0.
func (c *Cooldown) Refused(p *Provider, status int, wait time.Duration, now time.Time) time.Duration {
	switch {
	case status == http.StatusTooManyRequests, status == StatusOverloaded:
		wait = cmp.Or(wait, defaultCooldown)
	case status != http.StatusServiceUnavailable || wait == 0:
		return 0
	}
	wait = min(wait, maxCooldown)
	until := now.Add(wait)
	c.change(func(spells map[quota]period) {
		// this bounds the map
		maps.DeleteFunc(spells, func(_ quota, s period) bool { return !now.Before(s.until) })
		if known := spells[p.quota]; known.until.After(until) {
			until = known.until
		}
		spells[p.quota] = period{now, until}
	})
	return wait
}

// suspicion is how long the first attempts at a provider are watched that has broken an answer off.
const suspicion = 10 * time.Minute

// Suspect records that a provider has broken an answer off before its content.
func (c *Cooldown) Suspect(p *Provider, now time.Time) {
	c.change(func(spells map[quota]period) {
		maps.DeleteFunc(spells, func(_ quota, s period) bool { return !now.Before(s.until) })
		spells[p.quota] = period{now, now.Add(suspicion)}
	})
}

// Served records that a provider answered a request of a time. A request from before the cooldown has no effect.
func (c *Cooldown) Served(p *Provider, asked time.Time) {
	spells := c.periods.Load()
	if spells == nil {
		return
	}
	if s, ok := (*spells)[p.quota]; ok && asked.After(s.since) {
		c.change(func(spells map[quota]period) { delete(spells, p.quota) })
	}
}

// change applies f to a copy of the map.
func (c *Cooldown) change(f func(map[quota]period)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[quota]period{}
	if spells := c.periods.Load(); spells != nil {
		next = maps.Clone(*spells)
	}
	f(next)
	if len(next) == 0 {
		c.periods.Store(nil)
		return
	}
	c.periods.Store(&next)
}

// order moves the targets with cooling providers to the end, sorted by the end of the cooldown.
func (c *Cooldown) order(targets []Target, now func() time.Time) {
	if c.periods.Load() == nil {
		return
	}
	at := now()
	slices.SortStableFunc(targets, func(a, b Target) int {
		return c.Until(a.Provider, at).Compare(c.Until(b.Provider, at))
	})
}
