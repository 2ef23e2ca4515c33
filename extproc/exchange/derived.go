package exchange

import (
	"sync"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/usage"
)

// derived is what is worked out of one configuration as it is asked for, and forgotten with it. It is safe for concurrent use.
type derived struct {
	config *Config
	users  bool // there are limits of users

	mu     sync.RWMutex // guards what follows
	sets   map[setKey]*ruleSet
	prices map[*configv1.Price]price // the catalog makes each once
}

// setKey is what a ruleSet depends on, users apart.
type setKey struct{ key, model, provider string }

// maxDerived bounds what is remembered: unlisted models are called what clients please.
const maxDerived = 10_000

// derived returns what is derived of a configuration. There is nearly always one.
func (e *Env) derived(c *Config) *derived {
	if d := e.last.Load(); d != nil && d.config == c {
		return d
	}
	d := &derived{config: c, sets: map[setKey]*ruleSet{}, prices: map[*configv1.Price]price{}}
	for _, l := range c.RateLimits {
		d.users = d.users || limitsUsers(l.GetDescriptors())
	}
	e.last.Store(d)
	return d
}

// rules returns the rules for a request of a client.
func (d *derived) rules(k *Client, user, model, provider string) *ruleSet {
	if d.users && user != "" {
		e := entriesOf(k, user, model, provider)
		return d.config.rulesOf(k, &e)
	}
	at := setKey{k.Name, model, provider}
	d.mu.RLock()
	set := d.sets[at]
	d.mu.RUnlock()
	if set != nil {
		return set
	}
	e := entriesOf(k, "", model, provider)
	set = d.config.rulesOf(k, &e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sets) >= maxDerived {
		clear(d.sets)
	}
	d.sets[at] = set
	return set
}

// A price is what a model costs, ready to be computed with.
type price struct {
	rates   *usage.Rates // nil: there is none
	version string
}

// price returns what a vendor's model costs.
func (d *derived) price(vendor, model string) price {
	if d.config.Catalog == nil {
		return price{}
	}
	listed := d.config.Catalog.Facts(vendor, model).GetPrice()
	if listed == nil {
		return price{}
	}
	d.mu.RLock()
	p, ok := d.prices[listed]
	d.mu.RUnlock()
	if ok {
		return p
	}
	p = price{usage.Compile(listed), usage.Version(listed)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.prices) >= maxDerived {
		clear(d.prices)
	}
	d.prices[listed] = p
	return p
}
