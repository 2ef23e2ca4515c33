package metering

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/reported"
	"github.com/modelgate/modelgate/internal/usage"
)

// Prices are dollars for a million tokens. The prompt of an advisor raises no tier of the model that asks it.
func TestPartsOfOtherModelsCostWhatTheseCost(t *testing.T) {
	own := &configv1.Price{Input: "1", Output: "2", Tiers: []*configv1.PriceTier{{AbovePromptTokens: 50, Input: "10"}}}
	advisor := Price{Rates: usage.Compile(&configv1.Price{Input: "5", Output: "25"})}
	for name, c := range map[string]struct{ usage, want string }{
		"an advisor": {`{"input_tokens":10,"output_tokens":20,"iterations":[{"input_tokens":4,"output_tokens":8},
			{"model":"advisor","input_tokens":100,"output_tokens":50},{"input_tokens":6,"output_tokens":12}]}`,
			"0.0018"},
		"a fallback": {`{"input_tokens":10,"output_tokens":20,"iterations":[{"model":"own","input_tokens":10,"output_tokens":0},
			{"model":"advisor","input_tokens":10,"output_tokens":20}]}`, "0.00055"},
		"a model that is not known": {`{"iterations":[{"model":"new","input_tokens":10,"output_tokens":10}]}`, "0.00003"},
	} {
		t.Run(name, func(t *testing.T) {
			u := reported.Read([]byte(c.usage))
			r := Record{Usage: u.OpenAI()}
			price := Price{Rates: usage.Compile(own)}
			s := &Surcharges{}
			r.SetCost(price, s, "", &Tally{})
			if r.Usage.ByModel != nil {
				r.SetCostByModel(price, func(model string) Price {
					return map[string]Price{"advisor": advisor, "own": price}[model]
				}, s, "")
			}
			require.Equal(t, c.want, r.Cost.String())
		})
	}
}
