package exchange_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	api "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// hourMeter is a meter whose provider is of a vendor, with Claude's prices: of a million tokens of input a dollar, of
// five minutes in the cache 1.25, of an hour 2.
func hourMeter(t *testing.T, vendor provider.Provider) *meter {
	key := fullKey()
	key.Limits[1].RequestsPerUnit = 100_000
	m := newMeter(t, key)
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: vendor.Name},
		Credential: "sk-provider"}, vendor)
	require.NoError(t, err)
	m.config.Providers["a"] = p
	m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
		Price: &configv1.Price{Input: "1", CachedInput: "0.1", CacheWrite: "1.25", Output: "5"}}}})
	m.configure()
	return m
}

// TestWritesToACacheForAnHourCostMore: in streams, in whole answers and in those that are of no use, as the vendor
// tells it, and where it does not, as the request asks.
func TestWritesToACacheForAnHourCostMore(t *testing.T) {
	const (
		js, sse = "application/json", "text/event-stream"
		split   = `"cache_creation_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}`
		brief   = `"cache_creation_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":0}`
		untold  = `"cache_creation_input_tokens":1000`
		anHour  = `,"cache_control":{"type":"ephemeral","ttl":"1h"}`
		hidden  = `,"cache_control":{"type":"ephemeral","\u0074tl":"1\u0068"}`
		minutes = `,"cache_control":{"type":"ephemeral","ttl":"5m"}`
		reads   = 9 * 1000
		wrote   = 10 * 5000
	)
	claudes := func(usage string) string {
		return `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":9,` + usage + `,"output_tokens":10}}`
	}
	begins := func(usage string) string {
		return `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":9,` + usage + `,"output_tokens":1}}}` + "\n\n"
	}
	const rest = `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":10}}` + "\n\n" +
		`data: {"type":"message_stop"}` + "\n\n"
	openAIs := func(usage string) string {
		return strings.Replace(whole, `"prompt_tokens":9,"completion_tokens":2,"total_tokens":11`,
			`"prompt_tokens":1009,"completion_tokens":10,"prompt_tokens_details":{`+usage+`}`, 1)
	}
	for name, c := range map[string]struct {
		vendor provider.Provider
		asks   string
		stream bool
		path   string
		body   string
		cost   int64
	}{
		"whole": {anthropic.Provider(), anHour, false, "", claudes(split), reads + 400*1250 +
			600*2000 + wrote},
		"whole, all for five minutes": {anthropic.Provider(), anHour, false, "", claudes(brief), reads + 1000*1250 +
			wrote},
		"whole, not told": {anthropic.Provider(), anHour, false, "", claudes(untold), reads + 1000*2000 +
			wrote},
		"whole, not told and hidden": {anthropic.Provider(), hidden, false, "", claudes(untold), reads + 1000*2000 +
			wrote},
		"whole, not told and not asked": {anthropic.Provider(), minutes, false, "", claudes(untold), reads + 1000*1250 +
			wrote},
		"whole, told and not asked": {anthropic.Provider(), "", false, "", claudes(split), reads + 400*1250 +
			600*2000 + wrote},
		"streamed": {anthropic.Provider(), anHour, true, "", begins(split) + rest, reads + 400*1250 +
			600*2000 + wrote},
		"streamed, all for five minutes": {anthropic.Provider(), anHour, true, "", begins(brief) + rest, reads + 1000*1250 +
			wrote},
		"streamed, not told": {anthropic.Provider(), anHour, true, "", begins(untold) + rest, reads +
			1000*2000 + wrote},
		"of no use, but it reports": {anthropic.Provider(), anHour, false, "",
			`{"content":7,"usage":{"input_tokens":9,` + split + `,"output_tokens":10}}`, reads + 400*1250 + 600*2000 + wrote},
		"of another dialect": {openai.Provider(), anHour, false, "",
			openAIs(`"cache_creation_tokens":1000,"cache_creation_token_details":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}`), reads + 400*1250 + 600*2000 + wrote},
		"of another dialect, not told": {openai.Provider(), anHour, false, "", openAIs(`"cache_write_tokens":1000`),
			reads + 1000*2000 + wrote},
		"a Route": {anthropic.Provider(), anHour, false, "/r/messages", claudes(split), reads +
			400*1250 + 600*2000 + wrote},
		"a Route that streams": {anthropic.Provider(), anHour, true, "/r/messages", begins(split) + rest, reads +
			400*1250 + 600*2000 + wrote},
		"a Route of Bedrock's, whole": {anthropic.Provider(), "", false, "/r/model/m-1/converse",
			`{"usage":{"inputTokens":9,"outputTokens":10,"cacheWriteInputTokens":1000,"cacheDetails":[{"ttl":"1h","inputTokens":600},{"ttl":"5m","inputTokens":400}]}}`, reads + 400*1250 + 600*2000 + wrote},
		"cut before anything is reported": {anthropic.Provider(), anHour, false, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := hourMeter(t, c.vendor)
			path, body, media := c.path, strings.TrimSuffix(ask40, "}")+c.asks+"}", js
			if path == "" {
				path = "/v1/chat/completions"
			}
			if c.stream {
				body, media = strings.TrimSuffix(stream40, "}")+c.asks+"}", sse
			}
			x, reply := m.ask(path, body, exchange.Header{Name: "content-length", Value: "400"})
			require.NotNil(t, reply.Plan, "%+v", reply.Immediate)
			answer(x, "200", media)
			x.ResponseBody(context.Background(), []byte(c.body), c.body != "")
			r := x.Close()
			if c.body == "" { // what is not known is the dearer
				require.Positive(t, r.Usage.PromptTokens)
				c.cost = 2000 * r.Usage.PromptTokens
				require.Equal(t, 2000*m.begun[0].GetInputTokens(), m.begun[0].GetCostNanoUsd())
			}
			require.Equal(t, c.cost, int64(r.Cost))
			require.Len(t, m.settled, 1)
			require.Equal(t, c.cost, m.settled[0][limit.Cost])
		})
	}
}

// TestWhatMayBeWrittenForAnHourIsReserved at its price.
func TestWhatMayBeWrittenForAnHourIsReserved(t *testing.T) {
	reserved := func(asks string) int64 {
		m := hourMeter(t, anthropic.Provider())
		_, reply := m.chat(strings.TrimSuffix(ask40, "}") + asks + "}")
		require.NotNil(t, reply.Plan, "%+v", reply.Immediate)
		return m.reserved[0].Amounts[limit.Cost] - 5000*m.reserved[0].Amounts[limit.OutputTokens] -
			1250*m.reserved[0].Amounts[limit.InputTokens]
	}
	require.Zero(t, reserved(""))
	require.Zero(t, reserved(`,"user":"1h"`))
	require.Positive(t, reserved(`,"cache_control":{"type":"ephemeral","ttl":"1h"}`))
	require.Positive(t,
		reserved(`,"tools":[{"type":"function","function":{"name":"f","parameters":{}},"cache_control":{"type":"ephemeral","ttl":"\u0031h"}}]`))
}

// TestClaudesPricesForAnHour are twice those of the input: https://platform.claude.com/docs/en/about-claude/pricing.
func TestClaudesPricesForAnHour(t *testing.T) {
	used := usage.Used{Usage: api.Usage{PromptTokens: 1000, CacheWriteTokens: 1000, HourWriteTokens: 1000}}
	for model, cost := range map[string]int64{"claude-opus-4-5": 10_000_000, "claude-sonnet-4-6": 6_000_000,
		"claude-haiku-4-5": 2_000_000, "claude-3-haiku-20240307": 500_000} {
		for _, vendor := range []string{"anthropic", "bedrock", "vertex"} {
			got, _ := usage.Compile(catalog.New(nil).Facts(vendor, model).GetPrice()).Cost(used)
			require.EqualValues(t, cost, got, "%s %s", vendor, model)
		}
	}
}
