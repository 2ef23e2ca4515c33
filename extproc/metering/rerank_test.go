package metering

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/usage"
)

// TestARerankCostsItsSearchUnits: those that the vendor bills, or one for each hundred documents. Vendors that bill
// tokens have no price for them.
func TestARerankCostsItsSearchUnits(t *testing.T) {
	units := &configv1.Price{Input: "0", Tools: []*configv1.ToolPrice{{Name: SearchUnit, Call: "0.002"}}}
	tokens := &configv1.Price{Input: "0.1"}
	for _, c := range []struct {
		documents int
		price     *configv1.Price
		told      openai.Usage
		cost      int64 // nano-dollars
	}{
		{1, units, openai.Usage{PromptTokens: 5}, 2_000_000},
		{100, units, openai.Usage{PromptTokens: 5}, 2_000_000},
		{101, units, openai.Usage{PromptTokens: 5}, 4_000_000},
		{1, units, openai.Usage{Units: 3}, 6_000_000},
		{101, tokens, openai.Usage{PromptTokens: 1000}, 100_000},
	} {
		body := []byte(`{"model":"m","query":"q","documents":["d"` + strings.Repeat(`,"d"`, c.documents-1) + `]}`)
		op := dialects.Find("/v1/rerank", "")
		parsed, err := op.Parse(inbound.Head{}, body)
		require.NoError(t, err)
		d := DemandOf(op, &parsed, body, nil)
		require.Zero(t, d.Output)
		r := &Record{Usage: c.told}
		r.SetCost(Price{Rates: usage.Compile(c.price)}, d.Surcharges, "", &Tally{})
		require.EqualValues(t, c.cost, r.Cost, "%+v", c)
		require.True(t, r.Priced)
	}
}
