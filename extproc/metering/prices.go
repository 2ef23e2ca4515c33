package metering

import (
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/memo"
	"github.com/modelgate/modelgate/internal/usage"
)

// Prices caches the prices of a catalog. It is safe for concurrent use.
type Prices struct {
	catalog *catalog.Catalog                   // nil: no prices
	known   *memo.Memo[*configv1.Price, Price] // the catalog makes each price once
}

// maxPrices bounds the cache.
const maxPrices = 10_000

// NewPrices returns the prices of a catalog, or no prices if it is nil.
func NewPrices(c *catalog.Catalog) *Prices {
	return &Prices{c, memo.New[*configv1.Price, Price](maxPrices)}
}

// Of returns the price of a vendor's model for a request that begins at a time.
func (p *Prices) Of(vendor, model string, at time.Time) Price {
	if p.catalog == nil {
		return Price{}
	}
	listed := catalog.PriceAt(p.catalog.Facts(vendor, model), at)
	if listed == nil {
		return Price{}
	}
	if known, ok := p.known.Find(listed); ok {
		return known
	}
	return p.known.Keep(listed, Price{Rates: usage.Compile(listed), Version: usage.Version(listed)})
}
