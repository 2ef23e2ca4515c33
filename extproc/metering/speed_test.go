package metering

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/usage"
)

// TestASpeedHasThePriceOfATier: the answer's speed decides, and the requested one if the answer names none.
func TestASpeedHasThePriceOfATier(t *testing.T) {
	priced := usage.Compile(&configv1.Price{Input: "1", Output: "1",
		ServiceTiers: []*configv1.ServiceTierPrice{{Name: "fast", Factor: "2"}, {Name: "priority", Factor: "3"}}})
	plain := usage.Compile(&configv1.Price{Input: "1", Output: "1"})
	for _, c := range []struct {
		asked, given, speed string
		rates               *usage.Rates
		cost                int64
		version             string
	}{
		{`{"speed":"fast"}`, "default", "fast", priced, 2000, "v/fast"},
		{`{"speed":"fast"}`, "default", "standard", priced, 1000, "v"},
		{`{"speed":"fast"}`, "", "standard", priced, 1000, "v"},
		{`{"speed":"fast"}`, "default", "", priced, 2000, "v/fast"},
		{`{"speed":"fast"}`, "priority", "", priced, 3000, "v/priority"},
		{`{}`, "default", "fast", priced, 2000, "v/fast"},
		{`{"speed":"standard"}`, "default", "", priced, 1000, "v"},
		{`{"speed":"fast"}`, "default", "fast", plain, 1000, "v/unpriced:fast"},
		{`{"inference_geo":"us"}`, "default", "standard", plain, 1000, "v/unpriced:us"},
	} {
		r := Record{Usage: openai.Usage{PromptTokens: 1, Speed: c.speed}}
		r.SetCost(Price{Rates: c.rates, Version: "v"}, surchargesOf(offered.Read([]byte(c.asked)), 0), c.given, &Tally{})
		require.EqualValues(t, c.cost, r.Cost, "%+v", c)
		require.Equal(t, c.version, r.PriceVersion, "%+v", c)
	}
}
