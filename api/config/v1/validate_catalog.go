package configv1

import (
	"strconv"
	"strings"
)

func (c *Capabilities) check(v *validator) {
	tokens := map[string]int64{"max_output_tokens": c.GetMaxOutputTokens(), "context_tokens": c.GetContextTokens()}
	for effort, n := range c.GetBudgets() {
		tokens["budgets."+effort] = n
	}
	for name, n := range tokens {
		if n < 0 {
			v.fail(name, "must not be negative")
		}
	}
}

func (p *Price) check(v *validator) {
	if text := p.GetBatchFactor(); text != "" {
		if f, err := strconv.ParseFloat(text, 64); err != nil || strings.Trim(text, "0123456789.") != "" || f > 1 {
			v.fail("batch_factor", "must be a part of the price from 0 to 1, such as 0.5")
		}
	}
	above := int64(0)
	for i, t := range p.GetTiers() {
		if t.GetAbovePromptTokens() <= above {
			v.fail(element("tiers", i)+".above_prompt_tokens", "must be above the tier before")
		}
		above = t.GetAbovePromptTokens()
	}
}

func (m *ModelFacts) check(v *validator) {
	for i, p := range m.GetLaterPrices() {
		if i > 0 && !p.GetFrom().AsTime().After(m.GetLaterPrices()[i-1].GetFrom().AsTime()) {
			v.fail(element("later_prices", i)+".from", "must be after the one before")
		}
	}
}

func (p *LaterPrice) check(v *validator) {
	if p.GetFrom() != nil && p.GetFrom().CheckValid() != nil {
		v.fail("from", "must be a time")
	}
}

func (t *ToolPrice) check(v *validator) {
	if t.GetName() == "" || t.GetCall() == "" {
		v.fail("", "needs a name and what a call costs")
	}
}
