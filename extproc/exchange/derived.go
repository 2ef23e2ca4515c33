package exchange

import (
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
)

// derived is what is worked out of one configuration as it is asked for, and forgotten with it. It is safe for
// concurrent use.
type derived struct {
	config *Config
	rules  *access.Book
	prices *metering.Prices
}

// derived returns what is derived of a configuration. There is nearly always one.
func (e *Env) derived(c *Config) *derived {
	if d := e.last.Load(); d != nil && d.config == c {
		return d
	}
	d := &derived{config: c, rules: access.NewBook(c.Directory), prices: metering.NewPrices(c.Catalog)}
	e.last.Store(d)
	return d
}
