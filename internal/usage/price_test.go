package usage_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// Price lists as vendors publish them.
var (
	claude = &configv1.Price{Input: "3", Output: "15", CachedInput: "0.3", CacheWrite: "3.75",
		Tiers: []*configv1.PriceTier{{AbovePromptTokens: 200_000, Input: "6", Output: "22.5", CachedInput: "0.6",
			CacheWrite: "7.5"}}}
	gemini = &configv1.Price{Input: "1.25", Output: "10", CachedInput: "0.125",
		Tiers: []*configv1.PriceTier{{AbovePromptTokens: 200_000, Input: "2.5", Output: "15", CachedInput: "0.25"}}}
	flash = &configv1.Price{Input: "0.3", Output: "2.5", CachedInput: "0.03", InputAudio: "1"}
	voice = &configv1.Price{Input: "2.5", Output: "10", InputAudio: "40", OutputAudio: "80"}
	mini  = &configv1.Price{Input: "0.15", Output: "0.6", CachedInput: "0.075"}
	image = &configv1.Price{Input: "5", Image: "0.04"}
	sonar = &configv1.Price{Input: "2", Output: "8", Reasoning: "3"}
)

func used(u openai.Usage) usage.Used { return usage.Used{Usage: u} }

func TestCost(t *testing.T) {
	for name, c := range map[string]struct {
		price *configv1.Price
		used  usage.Used
		want  usage.Nano
	}{
		"nothing":            {mini, usage.Used{}, 0},
		"input and output":   {mini, used(openai.Usage{PromptTokens: 1000, CompletionTokens: 500}), 150_000 + 300_000},
		"one token is exact": {mini, used(openai.Usage{PromptTokens: 1}), 150},
		"what is half a nano-dollar is rounded up": {&configv1.Price{Input: "0.0005"}, used(openai.Usage{PromptTokens: 1}),
			1},
		"and less than half is not": {&configv1.Price{Input: "0.000499"}, used(openai.Usage{PromptTokens: 1}),
			0},
		"sums are rounded, not addends": {&configv1.Price{Input: "0.0005", Output: "0.0005"},
			used(openai.Usage{PromptTokens: 1, CompletionTokens: 1}), 1},

		"pitfall 40: cached tokens are a part of the prompt": {mini,
			used(openai.Usage{PromptTokens: 1000, CachedTokens: 800}), 200*150 + 800*75},
		"pitfall 40: each class once": {claude,
			used(openai.Usage{PromptTokens: 1000, CachedTokens: 300, CacheWriteTokens: 600, CompletionTokens: 10}),
			100*3000 + 300*300 + 600*3750 + 10*15000},
		"pitfall 40: classes that are more than the prompt": {claude,
			used(openai.Usage{PromptTokens: 1000, CachedTokens: 900, CacheWriteTokens: 600}), 900*300 + 100*3750},
		"what is not billed": {mini, used(openai.Usage{PromptTokens: 1000, CachedTokens: 50, MorePrompt: -900,
			CompletionTokens: 10, MoreAnswer: -4}), 50*75 + 50*150 + 6*600},
		"more than all is not billed":      {mini, used(openai.Usage{PromptTokens: 10, CachedTokens: 10, MorePrompt: -11}), 0},
		"what is billed beside the tokens": {mini, used(openai.Usage{PromptTokens: 34, MorePrompt: 233}), 267 * 150},
		"what is kept for an hour": {claude, used(openai.Usage{PromptTokens: 1000, CachedTokens: 300, CacheWriteTokens: 600,
			HourWriteTokens: 200}),
			100*3000 + 300*300 + 400*3750 + 200*6000},
		"and in a long prompt": {claude,
			used(openai.Usage{PromptTokens: 200_001, CacheWriteTokens: 200_000, HourWriteTokens: 200_000}), 200_000*12_000 +
				6000},
		"at a price of its own": {&configv1.Price{Input: "1", CacheWrite: "1.25", CacheWriteHour: "1.5"},
			used(openai.Usage{PromptTokens: 2, CacheWriteTokens: 2, HourWriteTokens: 1}), 1250 + 1500},
		"more for an hour than there is": {claude,
			used(openai.Usage{PromptTokens: 100, CacheWriteTokens: 60, HourWriteTokens: 90}), 40*3000 + 60*6000},
		"where writes have no price": {mini,
			used(openai.Usage{PromptTokens: 10, CacheWriteTokens: 5, HourWriteTokens: 5}), 1500},
		"an empty class costs as the next": {&configv1.Price{Input: "1", Output: "2"},
			used(openai.Usage{PromptTokens: 90, CachedTokens: 20, CacheWriteTokens: 30, PromptAudio: 40, CompletionTokens: 60,
				ReasoningTokens: 20, CompletionAudio: 30}), 90*1000 + 60*2000},
		"a class that is free": {&configv1.Price{Input: "1", CachedInput: "0"},
			used(openai.Usage{PromptTokens: 9, CachedTokens: 8}), 1000},

		"pitfall 44: a prompt at the border": {gemini,
			used(openai.Usage{PromptTokens: 200_000, CompletionTokens: 1}), 200_000*1250 + 10_000},
		"pitfall 44: a longer one, whole": {gemini,
			used(openai.Usage{PromptTokens: 200_001, CachedTokens: 1, CompletionTokens: 1}), 200_000*2500 + 250 + 15_000},
		"pitfall 44: cached tokens make a prompt long": {claude,
			used(openai.Usage{PromptTokens: 200_001, CachedTokens: 200_000}), 200_000*600 + 6000},
		"a tier that says nothing of the input": {&configv1.Price{Input: "2", CachedInput: "1", Output: "3",
			Tiers: []*configv1.PriceTier{{AbovePromptTokens: 10, Output: "4"}}},
			used(openai.Usage{PromptTokens: 11, CachedTokens: 1, CompletionTokens: 1}), 20_000 + 1000 + 4000},
		"a tier's cached tokens cost as its input": {&configv1.Price{Input: "2", CachedInput: "1",
			Tiers: []*configv1.PriceTier{{AbovePromptTokens: 10, Input: "4"}}},
			used(openai.Usage{PromptTokens: 11, CachedTokens: 1}), 44_000},
		"several tiers": {&configv1.Price{Input: "1",
			Tiers: []*configv1.PriceTier{{AbovePromptTokens: 10, Input: "2"}, {AbovePromptTokens: 20, Input: "3"}}},
			used(openai.Usage{PromptTokens: 20}), 40_000},
		"audio in": {flash,
			used(openai.Usage{PromptTokens: 100, PromptAudio: 60, CompletionTokens: 1}), 40*300 + 60*1000 + 2500},
		"audio in and out": {voice,
			used(openai.Usage{PromptTokens: 100, PromptAudio: 90, CompletionTokens: 50, CompletionAudio: 45}), 10*2500 +
				90*40_000 + 5*10_000 + 45*80_000},
		"images in and out": {&configv1.Price{Input: "2", Output: "12", CachedInput: "0.2", InputImage: "2.5",
			OutputImage: "120"}, used(openai.Usage{PromptTokens: 100, CachedTokens: 10, PromptImage: 60, CompletionTokens: 50,
			CompletionImage: 45}), 10*200 + 60*2500 + 30*2000 + 45*120_000 + 5*12_000},
		"images that are billed beyond the prompt": {&configv1.Price{Input: "1", InputImage: "3"},
			used(openai.Usage{PromptTokens: 34, MorePrompt: 259, PromptImage: 259}), 34*1000 + 259*3000},
		"reasoning is a part of the output": {sonar, used(openai.Usage{CompletionTokens: 100, ReasoningTokens: 70}),
			30*8000 + 70*3000},
		"images": {image, usage.Used{Usage: openai.Usage{PromptTokens: 10}, Images: 3}, 10*5000 +
			3*40_000_000},
		"pitfall 44: a batch costs half": {claude, usage.Used{Usage: openai.Usage{PromptTokens: 10, CompletionTokens: 10},
			Batch: true}, 15_000 + 75_000},
		"or what the price says": {&configv1.Price{Input: "1", BatchFactor: "0.25"},
			usage.Used{Usage: openai.Usage{PromptTokens: 10}, Batch: true}, 2500},
		"a provider that counts below zero": {mini,
			used(openai.Usage{PromptTokens: -5, CachedTokens: -7, CompletionTokens: -1}), 0},
		"more than there is money": {&configv1.Price{Input: "10000", Output: "10000"},
			used(openai.Usage{PromptTokens: math.MaxInt64, CompletionTokens: math.MaxInt64}), math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			cost, priced := usage.Compile(c.price).Cost(c.used)
			require.True(t, priced)
			require.Equal(t, c.want, cost)
			again, _ := usage.Compile(c.price).Cost(c.used)
			require.Equal(t, c.want, again)
		})
	}
}

func TestWhatHasNoPrice(t *testing.T) {
	for name, p := range map[string]*configv1.Price{
		"none":                                nil,
		"empty":                               {},
		"pitfall 45: a typing error":          {Input: "76.16/10.0", Output: "1"},
		"pitfall 45: one that costs too much": {Input: "76160"},
		"negative":                            {Input: "-1"},
		"with an exponent":                    {Input: "1e3"},
		"finer than a pico-dollar a token":    {Input: "0.0000001"},
		"a point and nothing else":            {Input: "."},
		"in a tier": {Input: "1",
			Tiers: []*configv1.PriceTier{{AbovePromptTokens: 1, Output: "x"}}},
		"in what is seldom used":                 {Input: "1", Reasoning: "x"},
		"a batch factor":                         {Input: "1", BatchFactor: "half"},
		"with more digits than there are":        {Input: strings.Repeat("9", 40)},
		"only a batch factor, which is no price": {BatchFactor: "0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			cost, priced := usage.Compile(p).Cost(used(openai.Usage{PromptTokens: 1000}))
			require.False(t, priced)
			require.Zero(t, cost)
			_, priced = usage.Compile(p).Estimate(1, 1, false)
			require.False(t, priced)
		})
	}
}

// random returns a price and a usage that a vendor could have.
func random(r *rand.Rand) (*configv1.Price, usage.Used) {
	money := func() string {
		if r.IntN(4) == 0 {
			return ""
		}
		return usage.Nano(r.Int64N(1e6) * 1000 * []int64{1, 100, 10_000}[r.IntN(3)]).String()
	}
	p := &configv1.Price{Input: "1", Output: money(), CachedInput: money(), CacheWrite: money(), CacheWriteHour: money(),
		InputAudio: money(), OutputAudio: money(), Reasoning: money(), Image: money(),
		InputImage: money(), OutputImage: money()}
	for above := int64(100); above < 400 && r.IntN(2) == 0; above += 100 {
		p.Tiers = append(p.Tiers, &configv1.PriceTier{AbovePromptTokens: above, Input: money(), Output: money(),
			CachedInput: money(), CacheWrite: money(), CacheWriteHour: money()})
	}
	part := func(of int64) int64 { return r.Int64N(of + 1) }
	u := usage.Used{Images: part(3), Batch: r.IntN(2) == 0}
	u.PromptTokens, u.CompletionTokens = r.Int64N(500), r.Int64N(1_000_000)
	u.CachedTokens = part(u.PromptTokens)
	u.CacheWriteTokens = part(u.PromptTokens - u.CachedTokens)
	u.HourWriteTokens = part(u.CacheWriteTokens)
	u.PromptAudio = part(u.PromptTokens - u.CachedTokens - u.CacheWriteTokens)
	u.PromptImage = part(u.PromptTokens - u.CachedTokens - u.CacheWriteTokens - u.PromptAudio)
	u.ReasoningTokens = part(u.CompletionTokens)
	u.CompletionAudio = part(u.CompletionTokens - u.ReasoningTokens)
	u.CompletionImage = part(u.CompletionTokens - u.ReasoningTokens - u.CompletionAudio)
	return p, u
}

// fraction is the cost by arithmetic without bounds.
func fraction(p *configv1.Price, u usage.Used) *big.Rat {
	first := func(all ...string) *big.Rat {
		for _, text := range all {
			if text != "" {
				rate, _ := new(big.Rat).SetString(text)
				return rate
			}
		}
		return new(big.Rat)
	}
	input, cached, write := first(p.Input), first(p.CachedInput, p.Input), first(p.CacheWrite, p.Input)
	forAnHour := func(own, write string, input, rate *big.Rat) *big.Rat {
		if twice := new(big.Rat).Add(input, input); own == "" && write != "" && twice.Cmp(rate) > 0 {
			return twice
		} else if own == "" {
			return rate
		}
		return first(own)
	}
	hour := forAnHour(p.CacheWriteHour, p.CacheWrite, input, write)
	output := first(p.Output)
	for _, tier := range p.Tiers {
		if u.PromptTokens <= tier.AbovePromptTokens {
			continue
		}
		output = first(tier.Output, p.Output)
		input, cached, write = first(tier.Input, p.Input), first(tier.CachedInput, tier.Input, p.CachedInput,
			p.Input), first(tier.CacheWrite, tier.Input, p.CacheWrite, p.Input)
		if hour = forAnHour(p.CacheWriteHour, p.CacheWrite, first(p.Input),
			first(p.CacheWrite, p.Input)); tier.Input+tier.CacheWrite+tier.CacheWriteHour != "" {
			hour = forAnHour(tier.CacheWriteHour, tier.CacheWrite, input, write)
		}
	}
	or := func(text string, rate *big.Rat) *big.Rat {
		if text == "" {
			return rate
		}
		return first(text)
	}
	total := new(big.Rat)
	add := func(n int64, rate *big.Rat) { total.Add(total, new(big.Rat).Mul(new(big.Rat).SetInt64(n), rate)) }
	add(u.CachedTokens, cached)
	add(u.CacheWriteTokens-u.HourWriteTokens, write)
	add(u.HourWriteTokens, hour)
	add(u.PromptAudio, or(p.InputAudio, input))
	add(u.PromptImage, or(p.InputImage, input))
	add(u.PromptTokens-u.CachedTokens-u.CacheWriteTokens-u.PromptAudio-u.PromptImage, input)
	add(u.ReasoningTokens, or(p.Reasoning, output))
	add(u.CompletionAudio, or(p.OutputAudio, output))
	add(u.CompletionImage, or(p.OutputImage, output))
	add(u.CompletionTokens-u.ReasoningTokens-u.CompletionAudio-u.CompletionImage, output)
	add(u.Images*1_000_000, first(p.Image))
	if u.Batch {
		total.Quo(total, new(big.Rat).SetInt64(2))
	}
	return total.Mul(total, new(big.Rat).SetInt64(1000)) // millionths of a dollar to nano-dollars
}

func TestCostIsExactToHalfANanoDollar(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	half := big.NewRat(1, 2)
	for range 4_000 {
		p, u := random(r)
		cost, priced := usage.Compile(p).Cost(u)
		require.True(t, priced)
		over := new(big.Rat).Sub(new(big.Rat).SetInt64(int64(cost)), fraction(p, u))
		require.True(t, over.Cmp(half) <= 0 && over.Cmp(new(big.Rat).Neg(half)) > 0, "%v %v: %s off by %s", p, u, cost, over)
	}
}

func TestAnEstimateOfTextIsNeverTooLow(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 4_000 {
		p, u := random(r)
		u.Images, u.PromptAudio, u.CompletionAudio, u.Batch = 0, 0, 0, false
		u.PromptImage, u.CompletionImage = 0, 0
		cost, _ := usage.Compile(p).Cost(u)
		dearest, _ := usage.Compile(p).Estimate(u.PromptTokens, u.CompletionTokens, true)
		require.GreaterOrEqual(t, dearest, cost, "%v %v", p, u)
		u.HourWriteTokens = 0
		cost, _ = usage.Compile(p).Cost(u)
		estimate, priced := usage.Compile(p).Estimate(u.PromptTokens, u.CompletionTokens, false)
		require.True(t, priced)
		require.GreaterOrEqual(t, estimate, cost, "%v %v", p, u)
	}
}

func TestMoneyIsWrittenAndReadExactly(t *testing.T) {
	for text, want := range map[string]usage.Nano{"0": 0, "0.001234": 1_234_000, "10": 10 * usage.Dollar,
		"0.000000001": 1, "1.5": 1.5e9, "9223372036.854775807": math.MaxInt64} {
		n, err := usage.ParseUSD(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n)
		require.Equal(t, text, n.String())
	}
	for text, want := range map[string]usage.Nano{"10.50": 10.5e9, "007": 7e9, ".5": 5e8, "5.": 5e9,
		"1.0000000000000": 1e9} {
		n, err := usage.ParseUSD(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", ".", "-1", "+1", "1e3", "1,5", "$1", " 1", "1.0000000001", "9223372036.854775808",
		"18446744073709551616", "1.2.3", "٣"} {
		_, err := usage.ParseUSD(text)
		require.Error(t, err, text)
	}
	require.Equal(t, "-0.5", usage.Nano(-5e8).String())
	require.Equal(t, "-9223372036.854775808", usage.Nano(math.MinInt64).String())
	for range 10_000 {
		n := usage.Nano(rand.Int64() >> rand.IntN(63))
		again, err := usage.ParseUSD(n.String())
		require.NoError(t, err)
		require.Equal(t, n, again)
	}
}

func BenchmarkCost(b *testing.B) {
	rates := usage.Compile(claude)
	u := used(openai.Usage{PromptTokens: 1000, CachedTokens: 300, CacheWriteTokens: 600, CompletionTokens: 10,
		ReasoningTokens: 3})
	for _, c := range []struct {
		name string
		cost func() (usage.Nano, bool)
	}{
		{"compiled", func() (usage.Nano, bool) { return rates.Cost(u) }},
		{"parsed", func() (usage.Nano, bool) { return usage.Compile(claude).Cost(u) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.cost()
			}
		})
	}
}
