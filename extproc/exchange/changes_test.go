package exchange_test

import (
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	api "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// A change is what a parameter does to the price of a request.
type change struct {
	path, plain, asks string // the request without the parameter, and its members
	answer            string // what is answered; empty: it is not asked for where it has a price, because it has none
	price             *configv1.Price
	cost              int64
	refused           bool   // under a budget, at a price without service tiers and tools
	param             string // that the refusal names, where it is called otherwise
	reserves          bool   // more than the request without it
}

// priceChanges are the changes by what docs/limits.md calls them.
func priceChanges() map[string]change {
	const chat, text, responses, cent = "/v1/chat/completions", `{"model":"a/m-1","prompt":"hi","max_tokens":40}`,
		"/v1/responses", 10_000_000
	completion := `{"id":"c","object":"text_completion","created":1,"model":"m-1","choices":[{"index":0,"text":"hello","finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	detailed := func(details string) string {
		return strings.Replace(whole, `"total_tokens":11`, `"total_tokens":11,`+details, 1)
	}
	priced := func(change func(*configv1.Price)) *configv1.Price {
		p := &configv1.Price{Input: "1", Output: "2"}
		change(p)
		return p
	}
	items := func(typ string) string {
		return `{"object":"response","model":"m-1","output":[{"type":"` + typ + `"},{"type":"message"}],` + spent + `}`
	}
	return map[string]change{
		"n": {path: chat, plain: ask40, asks: `,"n":3`, answer: whole, cost: costs, reserves: true},
		"best_of": {path: "/v1/completions", plain: text, asks: `,"best_of":3`, answer: completion, cost: costs,
			reserves: true},
		"service_tier": {path: chat, plain: ask40, asks: `,"service_tier":"priority"`, answer: whole, cost: 2 * costs,
			refused: true, reserves: true},
		"web_search_options": {path: chat, plain: ask40, asks: `,"web_search_options":{}`, answer: whole, cost: costs + cent,
			refused: true, reserves: true},
		"search_parameters": {path: responses, plain: spokenTo, asks: `,"search_parameters":{"mode":"on"}`,
			answer: items("message"), cost: costs + cent, refused: true, reserves: true},
		"enable_search": {path: chat, plain: ask40, asks: `,"enable_search":true`, answer: whole, cost: costs + cent,
			refused: true, reserves: true},
		"plugins":       {path: chat, plain: ask40, asks: `,"plugins":[{"id":"web"}]`, refused: true},
		"models":        {path: chat, plain: ask40, asks: `,"models":["dear/x"]`, refused: true},
		"preset":        {path: chat, plain: ask40, asks: `,"preset":"p"`, refused: true},
		"prompt":        {path: responses, plain: spokenTo, asks: `,"prompt":{"id":"p"}`, refused: true},
		"agent_id":      {path: chat, plain: ask40, asks: `,"agent_id":"a"`, refused: true},
		"container":     {path: responses, plain: spokenTo, asks: `,"container":{"skills":[]}`, refused: true},
		"speed":         {path: chat, plain: ask40, asks: `,"speed":"fast"`, refused: true},
		"inference_geo": {path: chat, plain: ask40, asks: `,"inference_geo":"us"`, refused: true},
		"tools":         {path: responses, plain: spokenTo, asks: `,"tools":[{"type":"shell"}]`, refused: true},
		"web_search": {path: responses, plain: spokenTo, asks: searching, answer: items("web_search_call"),
			cost: costs + cent, refused: true, param: "tools", reserves: true},
		"code_interpreter": {path: responses, plain: spokenTo, asks: `,"tools":[{"type":"code_interpreter"}]`,
			answer: items("code_interpreter_call"), cost: costs + 2*cent, refused: true, param: "tools", reserves: true},
		"file_search": {path: responses, plain: spokenTo, asks: `,"tools":[{"type":"file_search"}]`, refused: true,
			param: "tools"},
		"image_generation": {path: responses, plain: spokenTo, asks: `,"tools":[{"type":"image_generation"}]`,
			refused: true, param: "tools"},
		"background": {path: responses, plain: spokenTo, asks: `,"background":true`, refused: true},
		"a long prompt": {path: chat, plain: ask40, answer: whole, cost: 9*3000 + 2*2000,
			price: priced(func(p *configv1.Price) { p.Tiers = []*configv1.PriceTier{{AbovePromptTokens: 8, Input: "3"}} })},
		"cached input, writes to a cache": {path: chat, plain: ask40,
			asks: `,"cache_control":{"type":"ephemeral","ttl":"1h"}`, reserves: true,
			answer: detailed(`"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3,"cache_creation_token_details":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":2}}`),
			cost:   2*1000 + 4*100 + 1*1250 + 2*2000 + 2*2000,
			price:  priced(func(p *configv1.Price) { p.CachedInput, p.CacheWrite = "0.1", "1.25" })},
		"reasoning, predictions, audio": {path: chat, plain: ask40,
			answer: detailed(
				`"prompt_tokens_details":{"audio_tokens":3},"completion_tokens_details":{"reasoning_tokens":1,"audio_tokens":1}`),
			cost: 6*1000 + 3*4000 + 3000 + 5000, price: priced(func(p *configv1.Price) {
				p.InputAudio, p.Reasoning,
					p.OutputAudio = "4", "3", "5"
			})},
		"images": {path: "/v1/images/generations", plain: `{"model":"a/m-1","prompt":"a fox"}`,
			asks: `,"n":3,"size":"1024x1024","quality":"high"`, answer: `{"data":[]}`, cost: 3*cent + 19_000, reserves: true,
			price: priced(func(p *configv1.Price) { p.Image = "0.01" })},
	}
}

// documented returns what the table of docs/limits.md lists: parameters by their names, and rows without any as a
// whole.
func documented(t *testing.T) []string {
	text, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "### What changes a price\n\n| parameter |")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	var all []string
	for _, row := range strings.Split(table, "\n")[2:] {
		cell := strings.TrimSpace(strings.Split(row, "|")[1])
		names := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cell, -1)
		for _, n := range names {
			all = append(all, n[1])
		}
		if names == nil {
			all = append(all, cell)
		}
	}
	return all
}

// TestEveryDocumentedChangeOfAPrice holds the documents' list against what is reserved, refused and charged: neither
// may have what the other lacks.
func TestEveryDocumentedChangeOfAPrice(t *testing.T) {
	changes := priceChanges()
	require.ElementsMatch(t, documented(t), append(slices.Collect(maps.Keys(changes)), "native batches"))
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			asking := strings.TrimSuffix(c.plain, "}") + c.asks + "}"
			_, reply := newMeter(t, fullKey()).ask(c.path, asking)
			require.Equal(t, c.refused, reply.Immediate != nil, "%+v", reply.Immediate)
			if c.refused {
				require.Equal(t, 400, reply.Immediate.Status)
				require.Contains(t, string(reply.Immediate.Body), `"param":"`+cmp.Or(c.param, name)+`"`)
			}
			if c.answer == "" {
				return
			}
			meter := func() *meter {
				m := feeMeter(t, openai.Provider())
				if c.price != nil {
					m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
						Price: c.price}}})
					m.configure()
				}
				return m
			}
			without, with := meter(), meter()
			_, reply = without.ask(c.path, c.plain)
			require.NotNil(t, reply.Plan, "%+v", reply.Immediate)
			require.EqualValues(t, c.cost, with.asks(c.path, asking, c.answer).Cost)
			// By more than what its own tokens cost.
			a, b := with.reserved[0].Amounts, without.reserved[0].Amounts
			more := a[limit.Cost] - b[limit.Cost] - 1250*(a[limit.InputTokens]-b[limit.InputTokens])
			require.Equal(t, c.reserves, more > 0, "%d", more)
		})
	}
	t.Run("native batches", func(t *testing.T) {
		cost, _ := usage.Compile(&configv1.Price{Input: "1", Output: "2",
			BatchFactor: "0.25"}).Cost(usage.Used{Usage: api.Usage{PromptTokens: 8}, Batch: true})
		require.EqualValues(t, 2000, cost)
	})
}
