package configv1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func facts(change func(*configv1.ModelFacts)) *configv1.Catalog {
	m := &configv1.ModelFacts{Models: []string{"m-*"}, Capabilities: &configv1.Capabilities{},
		Price: &configv1.Price{Input: "0.15", Output: "10"}}
	change(m)
	return &configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{m}}
}

func TestValidateCatalog(t *testing.T) {
	negative := int64(-1)
	for field, c := range map[string]*configv1.Catalog{
		"":                    facts(func(*configv1.ModelFacts) {}),
		"name":                {Name: "mine"},
		"models[0].models":    facts(func(m *configv1.ModelFacts) { m.Models = nil }),
		"models[0].models[0]": facts(func(m *configv1.ModelFacts) { m.Models = []string{""} }),
		"models[0].capabilities.context_tokens": facts(
			func(m *configv1.ModelFacts) { m.Capabilities.ContextTokens = &negative }),
		"models[0].capabilities.budgets.low": facts(
			func(m *configv1.ModelFacts) { m.Capabilities.Budgets = map[string]int64{"low": -1} }),
		"models[0].price.input": facts(func(m *configv1.ModelFacts) { m.Price.Input = "$1" }),
		// pitfall 45
		"models[0].price.output":       facts(func(m *configv1.ModelFacts) { m.Price.Output = "76160" }),
		"models[0].price.cache_write":  facts(func(m *configv1.ModelFacts) { m.Price.CacheWrite = "-1" }),
		"models[0].price.cached_input": facts(func(m *configv1.ModelFacts) { m.Price.CachedInput = "1e3" }),
		"models[0].price.reasoning":    facts(func(m *configv1.ModelFacts) { m.Price.Reasoning = "x" }),
		"models[0].price.image":        facts(func(m *configv1.ModelFacts) { m.Price.Image = "-1" }),
		"models[0].price.batch_factor": facts(func(m *configv1.ModelFacts) { m.Price.BatchFactor = "1.5" }),
		"models[0].price.tiers[0].above_prompt_tokens": facts(
			func(m *configv1.ModelFacts) { m.Price.Tiers = []*configv1.PriceTier{{Input: "1"}} }),
		"models[0].price.tiers[1].above_prompt_tokens": facts(func(m *configv1.ModelFacts) {
			m.Price.Tiers = []*configv1.PriceTier{{AbovePromptTokens: 9}, {AbovePromptTokens: 9}}
		}),
		"models[0].price.tiers[0].input": facts(func(m *configv1.ModelFacts) {
			m.Price.Tiers = []*configv1.PriceTier{{AbovePromptTokens: 9, Input: "one"}}
		}),
		"models[0].later_prices[0].from": facts(func(m *configv1.ModelFacts) {
			m.LaterPrices = []*configv1.LaterPrice{{}}
		}),
		"models[0].later_prices[1].from": facts(func(m *configv1.ModelFacts) {
			at := timestamppb.New(time.Unix(9, 0))
			m.LaterPrices = []*configv1.LaterPrice{{From: at}, {From: at}}
		}),
		"models[0].later_prices[0].price.input": facts(func(m *configv1.ModelFacts) {
			m.LaterPrices = []*configv1.LaterPrice{{From: timestamppb.Now(), Price: &configv1.Price{Input: "one"}}}
		}),
	} {
		errs := configv1.Validate(c, nil)
		if field == "" {
			require.Empty(t, errs)
			continue
		}
		require.Len(t, errs, 1, field)
		require.Contains(t, errs.Error(), field)
	}
}
