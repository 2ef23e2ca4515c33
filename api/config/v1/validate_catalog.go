package configv1

import (
	"strconv"
	"strings"
)

func (v *validator) catalog(c *Catalog) {
	if c.GetName() != "default" {
		v.fail("name", "must be default: there is one catalog")
	}
	for i, m := range c.GetModels() {
		at := element("models", i)
		if len(m.GetModels()) == 0 {
			v.fail(at+".models", "needs at least one name or pattern")
		}
		for j, pattern := range m.GetModels() {
			v.required(element(at+".models", j), pattern)
		}
		v.capabilities(at+".capabilities", m.GetCapabilities())
		v.price(at+".price", m.GetPrice())
	}
}

func (v *validator) capabilities(at string, c *Capabilities) {
	tokens := map[string]int64{"max_output_tokens": c.GetMaxOutputTokens(), "context_tokens": c.GetContextTokens()}
	for effort, n := range c.GetBudgets() {
		tokens["budgets."+effort] = n
	}
	for name, n := range tokens {
		if n < 0 {
			v.fail(at+"."+name, "must not be negative")
		}
	}
}

func (v *validator) price(at string, p *Price) {
	for name, text := range map[string]string{
		"input": p.GetInput(), "output": p.GetOutput(), "cached_input": p.GetCachedInput(), "cache_write": p.GetCacheWrite(),
		"cache_write_hour": p.GetCacheWriteHour(),
		"input_audio":      p.GetInputAudio(), "output_audio": p.GetOutputAudio(), "reasoning": p.GetReasoning(),
		"image": p.GetImage(),
	} {
		v.money(at+"."+name, text)
	}
	if text := p.GetBatchFactor(); text != "" {
		if f, err := strconv.ParseFloat(text, 64); err != nil || strings.Trim(text, "0123456789.") != "" || f > 1 {
			v.fail(at+".batch_factor", "must be a part of the price from 0 to 1, such as 0.5")
		}
	}
	for i, t := range p.GetServiceTiers() {
		tier := element(at+".service_tiers", i)
		if t.GetName() == "" {
			v.fail(tier+".name", "is required")
		}
		for name, text := range map[string]string{"factor": t.GetFactor(), "input": t.GetInput(), "output": t.GetOutput(),
			"cached_input": t.GetCachedInput(),
			"cache_write":  t.GetCacheWrite(), "cache_write_hour": t.GetCacheWriteHour()} {
			v.money(tier+"."+name, text)
		}
	}
	for i, t := range p.GetTools() {
		tool := element(at+".tools", i)
		if t.GetName() == "" || t.GetCall() == "" {
			v.fail(tool, "needs a name and what a call costs")
		}
		v.money(tool+".call", t.GetCall())
	}
	above := int64(0)
	for i, t := range p.GetTiers() {
		tier := element(at+".tiers", i)
		if t.GetAbovePromptTokens() <= above {
			v.fail(tier+".above_prompt_tokens", "must be above the tier before")
		}
		above = t.GetAbovePromptTokens()
		for name, text := range map[string]string{
			"input": t.GetInput(), "output": t.GetOutput(), "cached_input": t.GetCachedInput(),
			"cache_write": t.GetCacheWrite(), "cache_write_hour": t.GetCacheWriteHour(),
		} {
			v.money(tier+"."+name, text)
		}
	}
}

// money checks an amount of US dollars: decimal digits, which are exact, within a bound that catches typing errors.
func (v *validator) money(field, text string) {
	if text == "" {
		return
	}
	f, err := strconv.ParseFloat(text, 64)
	_, fraction, _ := strings.Cut(text, ".")
	if err != nil || strings.Trim(text, "0123456789.") != "" || f > 10_000 || len(fraction) > 6 {
		v.fail(field,
			"must be US dollars, such as 0.15, for a million tokens or one image, with at most six digits after the point, and at most 10000")
	}
}
