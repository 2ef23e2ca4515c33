package call

import (
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/memo"
)

// Derived caches values that are computed from one configuration. It is safe for concurrent use.
type Derived struct {
	Config *Config
	Rules  *access.Book
	Prices *metering.Prices
	served *memo.Memo[string, []byte]
}

// maxServed bounds the models whose providers are kept.
const maxServed = 10_000

// ServedBy identifies who serves a model, and how.
func (d *Derived) ServedBy(model string) []byte {
	if known, ok := d.served.Find(model); ok {
		return known
	}
	return d.served.Keep(model, d.Config.Served(model))
}

// Derived returns the cache of a configuration. Nearly always there is only one.
func (e *Env) Derived(c *Config) *Derived {
	if d := e.last.Load(); d != nil && d.Config == c {
		return d
	}
	d := &Derived{Config: c, Rules: access.NewBook(c.Directory, e.Names), Prices: metering.NewPrices(c.Catalog),
		served: memo.New[string, []byte](maxServed)}
	e.last.Store(d)
	return d
}
