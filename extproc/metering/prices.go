package metering

import (
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/memo"
	"github.com/modelgate/modelgate/internal/usage"
)

// Prices are those of a catalog, as they are asked for. They are safe for concurrent use.
type Prices struct {
	catalog *catalog.Catalog                   // nil: there are none
	known   *memo.Memo[*configv1.Price, Price] // the catalog makes each once
}

// maxPrices bounds what is remembered.
const maxPrices = 10_000

// NewPrices returns the prices of a catalog, or none where it is nil.
func NewPrices(c *catalog.Catalog) *Prices {
	return &Prices{c, memo.New[*configv1.Price, Price](maxPrices)}
}

// Of returns what a vendor's model costs.
func (p *Prices) Of(vendor, model string) Price {
	if p.catalog == nil {
		return Price{}
	}
	listed := p.catalog.Facts(vendor, model).GetPrice()
	if listed == nil {
		return Price{}
	}
	if known, ok := p.known.Find(listed); ok {
		return known
	}
	return p.known.Keep(listed, Price{Rates: usage.Compile(listed), Version: usage.Version(listed)})
}
