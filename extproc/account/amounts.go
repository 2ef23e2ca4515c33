package account

import (
	"cmp"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// Amounts returns what to reserve under rules for a request to one of targets. If the request does not bound the
// answer, the length of the answer is a guess. A guess alone never makes a request too large for a limit. The prices
// are those of the time.
func Amounts(
	d *metering.Demand, in *call.Derived, set *access.Rules, targets []routing.Target, at time.Time,
) limit.Amounts {
	input, output := d.Input, d.Output
	if d.Unread+d.Doubt > 0 { // at most the whole limit
		input += d.Unread
		for _, r := range set.Rules {
			if r.Measure == limit.Tokens || r.Measure == limit.InputTokens {
				input = max(d.Input-d.Doubt, min(input, r.Limit))
			}
		}
	}
	if guessed := output < 0; guessed {
		output = cmp.Or(d.Guess, metering.DefaultOutput)
		for _, r := range set.Rules {
			switch r.Measure {
			case limit.Tokens:
				output = min(output, max(0, r.Limit-input))
			case limit.OutputTokens:
				output = min(output, r.Limit)
			}
		}
	}
	if most := mostOutput(in, targets); most > 0 {
		output = min(output, most*d.Answers)
	}
	a := limit.Amounts{limit.Requests: 1, limit.Concurrency: 1, limit.InputTokens: input, limit.OutputTokens: output,
		limit.Tokens: input + output,
		limit.Cost:   1} // a request without a price must not pass a spent budget either
	for _, t := range targets {
		rates := in.Prices.Of(t.Provider.Vendor.Name, t.Model, at).Rates
		if rates == nil {
			continue
		}
		images, _ := rates.Cost(usage.Used{Images: d.Images})
		said := output
		if images > 0 { // they have a price, and no tokens
			said = 0
		}
		text, _ := rates.Estimate(input, said, d.HourCache || d.Passed)
		if in, other := rates.In(d.RequestedTier()); other && in != rates { // it may give a lower tier
			dear, _ := in.Estimate(input, said, d.HourCache || d.Passed)
			pictures, _ := in.Cost(usage.Used{Images: d.Images})
			text, images = max(text, dear), max(images, pictures)
		}
		a[limit.Cost] = max(a[limit.Cost], int64(text.Plus(images).Plus(d.Cost(rates))))
	}
	return a
}

// mostOutput returns the longest answer of any target, or 0 if the length of one is not known.
func mostOutput(in *call.Derived, targets []routing.Target) int64 {
	longest := int64(0)
	for _, t := range targets {
		if in.Config.Catalog == nil {
			return 0
		}
		most := in.Config.Catalog.Facts(t.Provider.Vendor.Name, t.Model).GetCapabilities().GetMaxOutputTokens()
		if most <= 0 {
			return 0
		}
		longest = max(longest, most)
	}
	return longest
}

// Unmetered returns the error of a request whose usage would not be counted under limits that count it, and the
// details for Envoy's log.
func (a *Account) Unmetered() (*openai.Error, string) {
	if a.Demand.Background && a.Meters() { // its usage would be reported only to later requests
		return openai.CodeUnsupportedParameter.On("background",
			"This key has limits of tokens or a budget, under which 'background' is not supported."), "mg_background"
	}
	return a.unpriced(a.Demand.Surcharges), "mg_unpriced"
}

// unpriced refuses a request of a client with a budget if it uses a surcharge without a price. A model without a price
// is not bounded by a budget, and neither are its surcharges.
func (a *Account) unpriced(s *metering.Surcharges) *openai.Error {
	if s == nil || a.Rules == nil || !a.Rules.Budget {
		return nil
	}
	for _, t := range a.Call.Active.Targets {
		rates := a.PriceOf(t.Provider.Vendor.Name, t.Model).Rates
		if rates == nil {
			continue
		}
		if _, ok := rates.In(s.Tier); !ok {
			return UnpricedTier(s.TierParam)
		}
		for _, of := range s.Tools {
			if _, ok := rates.Calls(of.Tool, 1); !ok && of.Tool != metering.SearchUnit {
				return openai.CodeUnsupportedParameter.On(of.Param,
					"What '%s' has the provider do has no price for this model, and your key has a budget.", of.Param)
			}
		}
	}
	return nil
}

// UnpricedTier is the error of a request for a service tier that has no price.
func UnpricedTier(member string) *openai.Error {
	return openai.CodeUnsupportedParameter.On(member,
		"The service tier has no price for this model, and your key has a budget. Leave '%s' out.", member)
}
