// Package catalog has facts about models: their limits, capabilities and prices. The data is in catalog.yaml. An
// operator's Catalog takes precedence.
//
// Several entries can match a model. Each fact is taken from the first entry that has it, so that an entry of one
// model only has the differences from its family's entry below.
package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/memo"
)

//go:embed catalog.yaml
var builtinYAML []byte

// builtin has the models of the embedded file.
var builtin = sync.OnceValue(func() []*configv1.ModelFacts {
	c, err := parse(builtinYAML)
	if err != nil {
		panic(err) // the file is a part of the program, and a test reads it
	}
	return c.GetModels()
})

// A Catalog finds the facts of models. It is safe for concurrent use.
type Catalog struct {
	entries []*configv1.ModelFacts
	known   *memo.Memo[key, *configv1.ModelFacts] // what was found before
}

type key struct{ vendor, model string }

// maxKnown bounds what is remembered: clients name models as they please.
const maxKnown = 10_000

// New returns the built-in catalog with an operator's before it, which may be nil.
func New(own *configv1.Catalog) *Catalog {
	return &Catalog{entries: slices.Concat(own.GetModels(), builtin()),
		known: memo.New[key, *configv1.ModelFacts](maxKnown)}
}

// Facts returns what is known of a model of a vendor. It is never nil, and must not be modified.
func (c *Catalog) Facts(vendor, model string) *configv1.ModelFacts {
	k := key{vendor, model}
	if found, ok := c.known.Find(k); ok {
		return found
	}
	return c.known.Keep(k, c.find(vendor, model))
}

// find lays the entries that hold for a model one over the other, the first uppermost.
func (c *Catalog) find(vendor, model string) *configv1.ModelFacts {
	facts := &configv1.ModelFacts{}
	for _, e := range slices.Backward(c.entries) {
		if !holds(e, vendor, model) {
			continue
		}
		over(facts, e)
	}
	facts.Vendors, facts.Models = nil, nil
	return facts
}

// over lays e over facts. A list that e has takes the place of the one below; merging would append to it.
func over(facts, e *configv1.ModelFacts) {
	if facts.Capabilities != nil {
		if e.GetCapabilities().GetEfforts() != nil {
			facts.Capabilities.Efforts = nil
		}
		if e.GetCapabilities().GetUnsupportedParameters() != nil {
			facts.Capabilities.UnsupportedParameters = nil
		}
	}
	if e.GetInputs() != nil {
		facts.Inputs = nil
	}
	if e.GetOutputs() != nil {
		facts.Outputs = nil
	}
	if e.GetPrice() != nil || e.GetLaterPrices() != nil {
		facts.Price, facts.LaterPrices = nil, nil
	}
	proto.Merge(facts, e)
}

// PriceAt returns the price of a request that begins at a time, or nil.
func PriceAt(facts *configv1.ModelFacts, at time.Time) *configv1.Price {
	price := facts.GetPrice()
	for _, later := range facts.GetLaterPrices() {
		if at.Before(later.GetFrom().AsTime()) {
			break
		}
		price = later.GetPrice()
	}
	return price
}

func holds(e *configv1.ModelFacts, vendor, model string) bool {
	if len(e.GetVendors()) > 0 && !slices.Contains(e.GetVendors(), vendor) {
		return false
	}
	return slices.ContainsFunc(e.GetModels(), func(pattern string) bool { return configv1.Matches(pattern, model) })
}

func parse(data []byte) (*configv1.Catalog, error) {
	documents, err := configv1.ParseYAML("catalog.yaml", data)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	if len(documents) != 1 {
		return nil, fmt.Errorf("reading the catalog: it is %d objects", len(documents))
	}
	c, ok := documents[0].Object.(*configv1.Catalog)
	if !ok {
		return nil, fmt.Errorf("reading the catalog: it is a %s", configv1.Label(documents[0].Object))
	}
	return c, nil
}
