package exchange

import (
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/memo"
	"github.com/modelgate/modelgate/internal/usage"
)

// derived is what is worked out of one configuration as it is asked for, and forgotten with it. It is safe for concurrent use.
type derived struct {
	config *Config
	users  bool // there are limits of users

	sets   *memo.Memo[setKey, *ruleSet]
	prices *memo.Memo[*configv1.Price, metering.Price] // the catalog makes each once
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
	d := &derived{config: c, sets: memo.New[setKey, *ruleSet](maxDerived), prices: memo.New[*configv1.Price, metering.Price](maxDerived)}
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
	if set, ok := d.sets.Find(at); ok {
		return set
	}
	e := entriesOf(k, "", model, provider)
	return d.sets.Keep(at, d.config.rulesOf(k, &e))
}

// price returns what a vendor's model costs.
func (d *derived) price(vendor, model string) metering.Price {
	if d.config.Catalog == nil {
		return metering.Price{}
	}
	listed := d.config.Catalog.Facts(vendor, model).GetPrice()
	if listed == nil {
		return metering.Price{}
	}
	if p, ok := d.prices.Find(listed); ok {
		return p
	}
	return d.prices.Keep(listed, metering.Price{Rates: usage.Compile(listed), Version: usage.Version(listed)})
}
