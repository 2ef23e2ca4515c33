package catalog

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What OpenAI states of the efforts and the prices of its newest models.
func TestOpenAI(t *testing.T) {
	c := New(nil)
	for model, want := range map[string]struct {
		none, max           bool
		input, output, fast string
		ultrafast           string
	}{
		"gpt-6.2-astra": {max: true, input: "8", output: "40", fast: "2"},
		"gpt-6.2-sol":   {max: true, input: "2", output: "10", fast: "2", ultrafast: "3"},
		"gpt-6.1-sol":   {max: true, input: "2", output: "10", fast: "2", ultrafast: "6"},
		"gpt-6.1-terra": {max: true, input: "1", output: "5", fast: "2"},
		"gpt-6-sol":     {none: true, max: true, input: "2", output: "10", fast: "2"},
		"gpt-6-luna":    {none: true, max: true, input: "0.1", output: "0.5", fast: "2"},
		"gpt-6-astra":   {none: true, max: true, input: "10", output: "50", fast: "2", ultrafast: "6"},
		"gpt-5.6":       {none: true, max: true, input: "4", output: "20", fast: "2"},
		"gpt-5.6-terra": {none: true, max: true, input: "2", output: "12", fast: "2"},
		"gpt-5.6-luna":  {none: true, max: true, input: "0.2", output: "1.2", fast: "2"},
		"gpt-5.5":       {none: true, input: "5", output: "30", fast: "2.5"},
	} {
		f := c.Facts("openai", model)
		efforts := f.GetCapabilities().GetEfforts()
		require.Equal(t, want.none, slices.Contains(efforts, "none"), model)
		require.Equal(t, want.max, slices.Contains(efforts, "max"), model)
		price := f.GetPrice()
		require.Equal(t, []string{want.input, want.output}, []string{price.GetInput(), price.GetOutput()}, model)
		require.EqualValues(t, 272000, f.GetPrice().GetTiers()[0].GetAbovePromptTokens(), model)
		tiers := map[string]string{}
		for _, s := range f.GetPrice().GetServiceTiers() {
			tiers[s.GetName()] = s.GetFactor()
		}
		require.Equal(t, []string{want.fast, want.fast, want.ultrafast},
			[]string{tiers["fast"], tiers["priority"], tiers["ultrafast"]}, model)
		if model != "gpt-5.5" { // Azure has prices of its own for service tiers
			require.Empty(t, c.Facts("azure", model).GetPrice().GetServiceTiers(), model)
			require.Equal(t, want.input, c.Facts("azure", model).GetPrice().GetInput(), model)
		}
	}
}
