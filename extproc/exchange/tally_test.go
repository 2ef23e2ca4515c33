package exchange_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
	"github.com/modelgate/modelgate/internal/provider/vendors/gemini"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

// feeMeter is a meter whose provider is of a vendor, where a search costs a cent and calls of code two, and the tier
// priority twice everything and flex half.
func feeMeter(t *testing.T, vendor provider.Provider) *meter {
	m := newMeter(t, fullKey())
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: vendor.Name},
		Credential: "sk-provider"}, vendor)
	require.NoError(t, err)
	m.config.Providers["a"] = p
	able := true
	m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
		Capabilities: &configv1.Capabilities{WebSearch: &able},
		Price: &configv1.Price{Input: "1", Output: "2",
			ServiceTiers: []*configv1.ServiceTierPrice{{Name: "priority", Factor: "2"}, {Name: "flex", Factor: "0.5"}},
			Tools: []*configv1.ToolPrice{{Name: "web_search", Call: "0.01"},
				{Name: "code_interpreter", Call: "0.02"}}}}}})
	m.configure()
	return m
}

// asks has an exchange answered with a body, whole or streamed, and returns what was charged.
func (m *meter) asks(path, request, body string) metering.Record {
	x, reply := m.ask(path, request, exchange.Header{Name: "content-length", Value: "400"})
	require.NotNil(m.t, reply.Plan, "%+v", reply.Immediate)
	media := "application/json"
	if strings.HasPrefix(body, "data:") {
		media = "text/event-stream"
	}
	answer(x, "200", media)
	x.ResponseBody(context.Background(), []byte(body), true)
	r := x.Close()
	require.Len(m.t, m.settled, 1)
	require.Equal(m.t, int64(r.Cost), m.settled[0][limit.Cost])
	return r
}

const (
	spent     = `"usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11}`
	costs     = 9*1000 + 2*2000
	searching = `,"tools":[{"type":"web_search"}]`
)

// TestToolsThatTheVendorRunsAreChargedAsOftenAsItSays, and where it does not, as was asked for.
func TestToolsThatTheVendorRunsAreChargedAsOftenAsItSays(t *testing.T) {
	const search, cent = `{"type":"web_search_call","id":"ws","action":{"type":"search"}},`, 10_000_000
	responses := func(items string) string {
		return `{"object":"response","model":"m-1","output":[` + items +
			`{"type":"message","content":[{"type":"output_text","text":"{\"type\":\"web_search_call\"}"},{"type":"web_search_call"}]}],` + spent + `}`
	}
	done := func(typ string) string {
		return `data: {"type":"response.output_item.added","item":{"type":"` + typ + `"}}` + "\n\n" +
			`data: {"type":"response.output_item.done","item":{"id":"i","type":"` + typ + `","x":{"type":"web_search_call"}}}` +
			"\n\n"
	}
	const ends = `data: {"type":"response.completed","response":{"model":"m-1","output":[{"type":"web_search_call"}],` +
		spent + `}}` + "\n\n"
	const claude,
		asksClaude = `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2`, `,"web_search_options":{}`
	claudes := `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}` + "\n\n" +
		`data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2,"server_tool_use":{"web_search_requests":4}}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
	google := func(queries string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP","groundingMetadata":{` + queries + `}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11},"modelVersion":"m-1"}`
	}
	for name, c := range map[string]struct {
		vendor           provider.Provider
		path, asks, body string
		fees             int64
	}{
		"responses": {openai.Provider(), "/v1/responses", searching,
			responses(search + search + search), 3 * cent},
		"responses, none": {openai.Provider(), "/v1/responses", searching + `,"max_tool_calls":7`,
			responses(""), 0},
		"responses, two tools": {openai.Provider(), "/v1/responses",
			`,"tools":[{"type":"web_search"},{"type":"code_interpreter"}]`,
			responses(search + `{"type":"code_interpreter_call"},`), 3 * cent},
		"responses, nothing told": {openai.Provider(), "/v1/responses", searching + `,"max_tool_calls":7`,
			`{"object":"response","model":"m-1",` + spent + `}`, 7 * cent},
		"responses, streamed": {openai.Provider(), "/v1/responses", searching + `,"stream":true`,
			done("web_search_call") + done("message") + done("web_search_call") + ends, 2 * cent},
		"responses, streamed, none": {openai.Provider(), "/v1/responses", searching + `,"stream":true`,
			done("message") + ends, 0},
		"responses, cut": {openai.Provider(), "/v1/responses", searching +
			`,"stream":true,"max_tool_calls":7`, done("message") +
			`data: {"type":"response.created","response":{"model":"m-1",` + spent + `}}` + "\n\n", 7 * cent},
		"responses, cut after two": {openai.Provider(), "/v1/responses", searching + `,"stream":true`,
			done("web_search_call") + done("web_search_call") + `data: {"type":"response.created","response":{"model":"m-1",` +
				spent + `}}` + "\n\n", 2 * cent},
		"Claude": {anthropic.Provider(), "/v1/chat/completions", asksClaude, claude +
			`,"server_tool_use":{"web_search_requests":5}}}`, 5 * cent},
		"Claude, none": {anthropic.Provider(), "/v1/chat/completions", asksClaude, claude +
			`,"server_tool_use":{"web_search_requests":0}}}`, 0},
		"Claude, nothing told": {anthropic.Provider(), "/v1/chat/completions", asksClaude, claude +
			`,"server_tool_use":null}}`, cent},
		"Claude, streamed": {anthropic.Provider(), "/v1/chat/completions", asksClaude + `,"stream":true`,
			claudes, 4 * cent},
		"Claude by a Route": {anthropic.Provider(), "/r/messages", "", claude +
			`,"server_tool_use":{"web_search_requests":5}}}`, 5 * cent},
		"Gemini, each query once": {gemini.Provider(), "/v1/chat/completions", asksClaude,
			google(`"webSearchQueries":["b","","a","b"]`), 2 * cent},
		"Gemini, nothing told": {gemini.Provider(), "/v1/chat/completions", asksClaude, google(""), cent},
		"Gemini, streamed": {gemini.Provider(), "/v1/chat/completions", asksClaude + `,"stream":true`,
			"data: " + google(`"webSearchQueries":["a","b","c"]`) + "\n\n", 3 * cent},
		"OpenRouter's way, whole": {openai.Provider(), "/v1/chat/completions", asksClaude,
			strings.Replace(whole, `"total_tokens":11`, `"total_tokens":11,"server_tool_use":{"web_search_requests":2}`, 1),
			2 * cent},
		"a chat that says nothing of it": {openai.Provider(), "/v1/chat/completions", asksClaude, whole, cent},
		"a tool that the client runs too": {openai.Provider(), "/v1/responses", `,"tools":[{"type":"function","name":"f"}]`,
			responses(`{"type":"function_call","name":"web_search"},`), 0},
	} {
		t.Run(name, func(t *testing.T) {
			request := strings.TrimSuffix(spokenTo, "}") + c.asks + "}"
			if !strings.Contains(c.path, "responses") {
				request = strings.TrimSuffix(ask40, "}") + c.asks + "}"
			}
			r := feeMeter(t, c.vendor).asks(c.path, request, c.body)
			require.EqualValues(t, costs+c.fees, r.Cost)
		})
	}
}

// TestOnlyTheAnswerItselfNamesItsServiceTier: what a client has the model repeat, or a vendor gives back of the
// request, lies deeper.
func TestOnlyTheAnswerItselfNamesItsServiceTier(t *testing.T) {
	const echo, own = `"metadata":{"service_tier":"flex"},`, `,"service_tier":"priority"`
	chunk := func(members string) string {
		return `data: {` + members +
			`"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n"
	}
	respond := func(members string) string {
		return `"object":"response","model":"m-1","output":[{"type":"function_call","arguments":{"service_tier":"flex"},"service_tier":"flex"}],` + echo + members + spent
	}
	for name, c := range map[string]struct {
		vendor     provider.Provider
		path, body string
		plain      bool // the price itself is charged
	}{
		"whole, deeper": {openai.Provider(), "/v1/chat/completions", strings.Replace(whole, `{"id"`, `{`+echo+
			`"id"`, 1), false},
		"whole, deeper and its own": {openai.Provider(), "/v1/chat/completions", strings.Replace(whole, `{"id"`, `{`+echo+
			`"service_tier":"default","id"`, 1), true},
		"streamed, deeper": {openai.Provider(), "/v1/chat/completions", chunk(echo) + usage11 + over, false},
		"streamed, later": {openai.Provider(), "/v1/chat/completions", chunk("") +
			chunk(echo+`"service_tier":"default",`) + usage11 + over, true},
		"Claude, streamed": {anthropic.Provider(), "/v1/chat/completions",
			`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":9,"output_tokens":2,"service_tier":"standard"}}}` + "\n\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n", true},
		"Gemini, streamed": {gemini.Provider(), "/v1/chat/completions",
			`data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"serviceTier":"standard"}}` + "\n\n", true},
		"responses, deeper": {openai.Provider(), "/v1/responses", `{` + respond("") + `}`, false},
		"responses, its own": {openai.Provider(), "/v1/responses", `{` + respond(`"service_tier":"default",`) + `}`,
			true},
		"responses, streamed": {openai.Provider(), "/v1/responses",
			`data: {"type":"response.completed","response":{` + respond(`"service_tier":"default",`) + `}}` + "\n\n", true},
		"responses, streamed deeper": {openai.Provider(), "/v1/responses",
			`data: {"type":"response.completed","item":{"service_tier":"flex"},"response":{` + respond("") + `}}` + "\n\n",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			request := ask40
			switch {
			case strings.Contains(c.path, "responses"):
				request = spokenTo
			case strings.HasPrefix(c.body, "data:"):
				request = stream40
			}
			if c.path == "/v1/responses" && strings.HasPrefix(c.body, "data:") {
				request = responding
			}
			r := feeMeter(t, c.vendor).asks(c.path, strings.TrimSuffix(request, "}")+own+"}", c.body)
			want := int64(2 * costs)
			if c.plain {
				want = costs
			}
			require.EqualValues(t, want, r.Cost, r.PriceVersion)
		})
	}
}
