package catalog

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func builtinCatalog(t testing.TB) *configv1.Catalog {
	t.Helper()
	c, err := parse(builtinYAML)
	require.NoError(t, err)
	return c
}

func TestTheFileIsValid(t *testing.T) {
	c := builtinCatalog(t)
	require.Empty(t, configv1.Validate(c, nil))
	_, err := time.Parse(time.DateOnly, c.GetVersion())
	require.NoError(t, err, "version is the date when the facts were checked last")
}

//go:embed testdata/known_names.txt
var knownNamesText string

// knownNames are names of models as vendors have them. Every pattern of the file matches one of those of its vendors,
// so that one with a typing error is found.
func knownNames(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	for line := range strings.Lines(knownNamesText) {
		vendor, model, found := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, found, line)
		names[vendor] = append(names[vendor], model)
	}
	return names
}

func TestEveryPatternMatchesAModel(t *testing.T) {
	known := knownNames(t)
	for i, e := range builtinCatalog(t).GetModels() {
		for _, pattern := range e.GetModels() {
			if !strings.Contains(pattern, "*") {
				continue
			}
			matched := slices.ContainsFunc(e.GetVendors(), func(vendor string) bool {
				return slices.ContainsFunc(known[vendor], func(name string) bool { return configv1.Matches(pattern, name) })
			})
			if !matched {
				t.Errorf("models[%d]: %q matches no name of %v in known_names.txt; is it spelt right?", i, pattern, e.GetVendors())
			}
		}
	}
}

func TestEveryEntryStatesWhatItIsFor(t *testing.T) {
	for i, e := range builtinCatalog(t).GetModels() {
		require.NotEmpty(t, e.GetVendors(), "models[%d]", i)
		says := e.GetCapabilities() != nil || e.GetPrice() != nil || e.GetInputs() != nil || e.GetRetiresAt() != nil
		require.True(t, says, "models[%d] says nothing", i)
	}
}

func TestEveryBlockOfPricesHasASourceAndADate(t *testing.T) {
	header := ""
	for line := range strings.Lines(string(builtinYAML)) {
		switch {
		case strings.HasPrefix(line, "# ") && strings.HasPrefix(header, "# "):
			header += line
		case strings.HasPrefix(line, "# "):
			header = line
		case strings.HasPrefix(strings.TrimSpace(line), "price:"):
			require.Contains(t, header, "https://", "above %s", line)
		}
		if !strings.HasPrefix(line, "# ") && strings.HasPrefix(header, "# ") {
			header = " " + header // the block has begun
		}
	}
}

func TestClaude(t *testing.T) {
	c := New(nil)
	const budget, adaptive, always, never = configv1.Thinking_BUDGET, configv1.Thinking_ADAPTIVE,
		configv1.Thinking_ALWAYS, configv1.Thinking_NEVER
	const both, one, neither = configv1.Sampling_BOTH, configv1.Sampling_ONE, configv1.Sampling_NEITHER
	for _, want := range []struct {
		model      string
		max        int64
		thinking   configv1.Thinking
		structured bool
		sampling   configv1.Sampling
		forced     bool
		bound      bool
		input      string
	}{
		{"claude-fable-5-1", 128000, always, true, neither, false, true, "10"},
		{"claude-fable-5", 128000, always, true, neither, false, false, "10"},
		{"claude-mythos-preview", 128000, always, true, neither, false, false, "10"},
		{"claude-opus-5-5", 128000, always, true, neither, false, true, "4"},
		{"claude-sonnet-5-5", 128000, always, true, neither, false, true, "2"},
		{"claude-haiku-5-5", 128000, adaptive, true, neither, true, true, "0.1"},
		{"claude-opus-5", 128000, adaptive, true, neither, true, false, "5"},
		{"claude-sonnet-5", 128000, adaptive, true, neither, true, false, "2"},
		{"claude-opus-4-8", 128000, adaptive, true, neither, true, false, "5"},
		{"claude-opus-4-7", 128000, adaptive, true, neither, true, false, "5"},
		{"claude-opus-4-6", 128000, adaptive, true, one, true, false, "5"},
		{"claude-sonnet-4-6", 128000, adaptive, true, one, true, false, "3"},
		{"claude-haiku-4-5-20251001", 64000, budget, true, one, true, false, "1"},
		{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", 64000, budget, true, one, true, false, "3"},
		{"claude-opus-4-5", 64000, budget, true, one, true, false, "5"},
		{"claude-opus-4-1-20250805", 32000, budget, true, one, true, false, "15"},
		{"claude-opus-4-1@20250805", 32000, budget, true, one, true, false, "15"},
		{"claude-opus-4-20250514", 32000, budget, false, both, true, false, "15"},
		{"claude-sonnet-4-0", 64000, budget, false, both, true, false, "3"},
		{"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0", 64000,
			budget, false, both, true, false, "3"},
		{"claude-3-7-sonnet@20250219", 64000, budget, false, both, true, false, "3"},
		{"claude-3-5-haiku-20241022", 8192, never, false, both, true, false, "0.8"},
		{"claude-3-haiku-20240307", 4096, never, false, both, true, false, "0.25"},
		{"anthropic.claude-instant-v1", 4096, never, false, both, true, false, ""},
		{"claude-of-the-future", 0, configv1.Thinking_THINKING_UNSPECIFIED, false, both, true, false, ""},
	} {
		t.Run(want.model, func(t *testing.T) {
			for _, vendor := range []string{"bedrock", "vertex", "anthropic"} {
				f := c.Facts(vendor, want.model)
				can := f.GetCapabilities()
				if vendor == "anthropic" && want.max == 0 { // there an unknown model is one that most of the dialect's are like
					require.Equal(t, int64(4096), can.GetMaxOutputTokens())
					require.Equal(t, budget, can.GetThinking())
					continue
				}
				require.Equal(t, want.max, can.GetMaxOutputTokens())
				require.Equal(t, want.thinking, can.GetThinking())
				require.Equal(t, want.structured && vendor != "bedrock", can.GetStructuredOutput() && vendor != "bedrock")
				require.Equal(t, want.sampling, can.GetSampling())
				require.Equal(t, want.forced, can.ForcedTools == nil || can.GetForcedTools())
				require.Equal(t, want.bound, can.GetBoundThinking())
				require.Equal(t, want.input, f.GetPrice().GetInput())
				require.Equal(t, int64(2048), can.GetBudgets()["low"])
				require.Equal(t, vendor == "anthropic", can.MediaUrls == nil)
				require.False(t, can.GetWebSearch() && vendor == "bedrock")
			}
		})
	}
}

func TestAnUnknownModelHasNoFacts(t *testing.T) {
	f := New(nil).Facts("acme", "some-model")
	require.NotNil(t, f)
	require.Nil(t, f.GetCapabilities())
	require.Nil(t, f.GetPrice())
}

func number(n int64) *int64 { return &n }

func TestTheFirstThatStatesAFactCounts(t *testing.T) {
	own := &configv1.Catalog{Models: []*configv1.ModelFacts{
		{Models: []string{"claude-opus-4-6"}, Capabilities: &configv1.Capabilities{MaxOutputTokens: number(7),
			Efforts: []string{"x"}}},
		{Models: []string{"claude-*"}, Capabilities: &configv1.Capabilities{MaxOutputTokens: number(8),
			ContextTokens: number(9)}, Price: &configv1.Price{Output: "99"}},
	}}
	c := New(own)
	f := c.Facts("anthropic", "claude-opus-4-6")
	require.Equal(t, int64(7), f.GetCapabilities().GetMaxOutputTokens())
	require.Equal(t, int64(9), f.GetCapabilities().GetContextTokens())
	require.Equal(t, []string{"x"}, f.GetCapabilities().GetEfforts(), "a list is one fact")
	require.Equal(t, configv1.Thinking_ADAPTIVE, f.GetCapabilities().GetThinking(),
		"what nobody stated above is the built-in catalog's")
	require.Equal(t, "99", f.GetPrice().GetOutput())
	require.Empty(t, f.GetPrice().GetInput(), "a price is one fact")
	require.Empty(t, f.GetModels())
	require.Equal(t, []string{"x"}, own.GetModels()[0].GetCapabilities().GetEfforts(), "nobody's entry is changed")
	require.Len(t, New(nil).Facts("anthropic", "claude-opus-4-6").GetCapabilities().GetEfforts(), 4)
	require.Equal(t, "5", New(nil).Facts("anthropic", "claude-opus-4-6").GetPrice().GetInput())
}

// A price that a vendor has announced holds from its day on. It belongs to the price of the same entry.
func TestLaterPrices(t *testing.T) {
	c := New(nil)
	day := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return at
	}
	flash := c.Facts("gemini", "gemini-3.8-flash")
	require.Equal(t, "0.75", PriceAt(flash, day("2026-12-31T23:59:59Z")).GetInput())
	require.Equal(t, "1.5", PriceAt(flash, day("2027-01-01T00:00:00Z")).GetInput())
	sol := c.Facts("openai", "gpt-6.2-sol")
	for at, factor := range map[string]string{"2027-02-28T23:59:59Z": "3", "2027-03-01T00:00:00Z": "6"} {
		price := PriceAt(sol, day(at))
		require.Equal(t, "ultrafast", price.GetServiceTiers()[2].GetName())
		require.Equal(t, factor, price.GetServiceTiers()[2].GetFactor(), at)
	}
	own := New(&configv1.Catalog{Models: []*configv1.ModelFacts{
		{Models: []string{"gemini-3.8-flash"}, Price: &configv1.Price{Input: "7"}},
		{Models: []string{"ends"}, LaterPrices: []*configv1.LaterPrice{{From: timestamppb.New(day("2027-01-01T00:00:00Z"))}},
			Price: &configv1.Price{Input: "8"}},
	}})
	require.Equal(t, "7", PriceAt(own.Facts("gemini", "gemini-3.8-flash"), day("2030-01-01T00:00:00Z")).GetInput())
	require.Equal(t, "8", PriceAt(own.Facts("gemini", "ends"), day("2026-12-31T00:00:00Z")).GetInput())
	require.Nil(t, PriceAt(own.Facts("gemini", "ends"), day("2027-01-01T00:00:00Z")))
	require.Nil(t, PriceAt(own.Facts("acme", "unknown"), time.Now()))
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	c := New(nil)
	for i := range maxKnown + 10 {
		c.Facts("anthropic", fmt.Sprint("m", i))
	}
	require.LessOrEqual(t, c.known.Len(), maxKnown)
	require.Equal(t, int64(128000), c.Facts("anthropic", "claude-opus-5").GetCapabilities().GetMaxOutputTokens())
}

func BenchmarkFacts(b *testing.B) {
	c := New(nil)
	b.ReportAllocs()
	for b.Loop() {
		c.Facts("anthropic", "claude-sonnet-4-5-20250929")
	}
}

func BenchmarkFactsOfANewModel(b *testing.B) {
	c := New(nil)
	b.ReportAllocs()
	for b.Loop() {
		c.find("anthropic", "claude-sonnet-4-5-20250929")
	}
}

// A service tier with prices of its own has them for prompts of any length, so a model whose price depends on the
// length has factors.
func TestServiceTiersOfPricesByLengthAreFactors(t *testing.T) {
	for _, e := range builtinCatalog(t).GetModels() {
		if len(e.GetPrice().GetTiers()) == 0 {
			continue
		}
		for _, s := range e.GetPrice().GetServiceTiers() {
			require.Empty(t, s.GetInput()+s.GetOutput()+s.GetCachedInput(), "%v %s", e.GetModels(), s.GetName())
		}
	}
}
