package exchange

import (
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
)

// derived caches values that are computed from one configuration. It is safe for concurrent use.
type derived struct {
	config *Config
	rules  *access.Book
	prices *metering.Prices
}

// derived returns the cache of a configuration. Nearly always there is only one.
func (e *Env) derived(c *Config) *derived {
	if d := e.last.Load(); d != nil && d.config == c {
		return d
	}
	d := &derived{config: c, rules: access.NewBook(c.Directory), prices: metering.NewPrices(c.Catalog)}
	e.last.Store(d)
	return d
}
