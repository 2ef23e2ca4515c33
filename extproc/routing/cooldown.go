package routing

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultCooldown is how long a provider is left alone that refuses for its load and does not say for how long.
	defaultCooldown = 2 * time.Second
	// longestCooldown bounds what a provider can ask for.
	longestCooldown = time.Minute
	// statusOverloaded is Anthropic's.
	statusOverloaded = 529
)

// A Cooldown knows which providers have asked to be left alone, and until when. Requests try them last for that long,
// so that the first attempt of each is not lost on one that refuses. Providers with the same quota, for they have the
// same credential at the same place, cool together. The zero value is ready for use, and is safe for concurrent use.
type Cooldown struct {
	mu     sync.Mutex // of writers
	spells atomic.Pointer[map[quota]spell]
}

// A spell is since when, and until when.
type spell struct{ since, until time.Time }

// A quota is what providers share that have the same credential at the same place.
type quota [sha256.Size]byte

func quotaOf(p *Provider) quota {
	text := p.Vendor.Name + "\x00" + p.endpoint.Authority() + p.endpoint.Path + "\x00" + p.credential.Reveal()
	if p.credential.Reveal() == "" {
		text = p.Config.GetName()
	}
	return sha256.Sum256([]byte(text))
}

// Until returns until when a provider cools, or the zero time.
func (c *Cooldown) Until(p *Provider, now time.Time) time.Time {
	if spells := c.spells.Load(); spells != nil {
		if s := (*spells)[p.quota]; now.Before(s.until) {
			return s.until
		}
	}
	return time.Time{}
}

// Refused takes the status with which a provider has refused a request, and how long it asks to wait, or 0. Only
// statuses by which it speaks of its load have it cool.
func (c *Cooldown) Refused(p *Provider, status int, wait time.Duration, now time.Time) {
	switch {
	case status == http.StatusTooManyRequests, status == statusOverloaded:
		wait = cmp.Or(wait, defaultCooldown)
	case status != http.StatusServiceUnavailable || wait == 0:
		return
	}
	until := now.Add(min(wait, longestCooldown))
	c.change(func(spells map[quota]spell) {
		// which bounds how many there are
		maps.DeleteFunc(spells, func(_ quota, s spell) bool { return !now.Before(s.until) })
		if known := spells[p.quota]; known.until.After(until) {
			until = known.until
		}
		spells[p.quota] = spell{now, until}
	})
}

// Served takes that a provider has answered a request that came in at a time. One that came in before the provider
// refused says nothing.
func (c *Cooldown) Served(p *Provider, asked time.Time) {
	spells := c.spells.Load()
	if spells == nil {
		return
	}
	if s, ok := (*spells)[p.quota]; ok && asked.After(s.since) {
		c.change(func(spells map[quota]spell) { delete(spells, p.quota) })
	}
}

// change has f change a copy.
func (c *Cooldown) change(f func(map[quota]spell)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := map[quota]spell{}
	if spells := c.spells.Load(); spells != nil {
		next = maps.Clone(*spells)
	}
	f(next)
	if len(next) == 0 {
		c.spells.Store(nil)
		return
	}
	c.spells.Store(&next)
}

// order puts the targets last whose providers cool, that first which cools for the shortest time.
func (c *Cooldown) order(targets []Target, now func() time.Time) {
	if c.spells.Load() == nil {
		return
	}
	at := now()
	slices.SortStableFunc(targets, func(a, b Target) int {
		return c.Until(a.Provider, at).Compare(c.Until(b.Provider, at))
	})
}
