package exchange

import (
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/memo"
)

// derived caches values that are computed from one configuration. It is safe for concurrent use.
type derived struct {
	config *Config
	rules  *access.Book
	prices *metering.Prices
	served *memo.Memo[string, []byte]
}

// maxServed bounds the models of which it is kept who serves them.
const maxServed = 10_000

// servedBy identifies who serves a model, and how.
func (d *derived) servedBy(model string) []byte {
	if known, ok := d.served.Find(model); ok {
		return known
	}
	return d.served.Keep(model, d.config.Served(model))
}

// derived returns the cache of a configuration. Nearly always there is only one.
func (e *Env) derived(c *Config) *derived {
	if d := e.last.Load(); d != nil && d.config == c {
		return d
	}
	d := &derived{config: c, rules: access.NewBook(c.Directory), prices: metering.NewPrices(c.Catalog),
		served: memo.New[string, []byte](maxServed)}
	e.last.Store(d)
	return d
}
