package exchange_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// TestServiceTiersHaveTheirPrices: the dearest that may be given is reserved, and what the answer says is charged.
func TestServiceTiersHaveTheirPrices(t *testing.T) {
	price := &configv1.Price{Input: "1", Output: "2",
		ServiceTiers: []*configv1.ServiceTierPrice{{Name: "priority", Factor: "2"},
			{Name: "flex", Input: "0.5", Output: "1"}},
		Tools: []*configv1.ToolPrice{{Name: "web_search", Call: "0.01"}}}
	for _, c := range []struct {
		asked, given   string
		dearer         bool // than without a tier
		cost           int64
		refused        string // under a budget
		ends           string // of the price's version
		withoutABudget bool
		notOpenAI      bool
	}{
		{asked: ``, cost: 13_000},
		{asked: `,"service_tier":"default"`, given: "default", cost: 13_000},
		{asked: `,"service_tier":"priority"`, given: "priority", cost: 26_000, dearer: true, ends: "/priority"},
		{asked: `,"service_tier":"priority"`, given: "default", cost: 13_000, dearer: true},
		{asked: `,"service_tier":"priority"`, cost: 26_000, dearer: true, ends: "/priority"},
		{asked: `,"service_tier":"auto"`, given: "priority", cost: 26_000, ends: "/priority"},
		{asked: `,"service_tier":"flex"`, given: "flex", cost: 6_500, ends: "/flex"},
		{asked: `,"service_tier":"scale"`, refused: "service_tier"},
		{asked: `,"service_tier":"scale"`, cost: 13_000, ends: "/unpriced:scale", withoutABudget: true},
		{asked: `,"web_search_options":{}`, cost: 10_013_000, dearer: true},
		{asked: `,"web_search_options":null`, cost: 13_000},
		{asked: `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`, cost: 10_013_000, dearer: true},
		{asked: `,"tools":[{"type":"google_search"}]`, cost: 10_013_000, dearer: true},                    // report 8
		{asked: `,"tools":[{"googleSearch":{}}]`, cost: 10_013_000, dearer: true, notOpenAI: true},        // report 8
		{asked: `,"tools":[{"type":"enterprise_web_search"}]`, cost: 10_013_000, dearer: true},            // report 8
		{asked: `,"tools":[{"type":"url_context"},{"code_execution":{}}]`, cost: 13_000, notOpenAI: true}, // report 8
	} {
		for _, stream := range []bool{false, true} {
			key := fullKey()
			if c.withoutABudget {
				key.Budgets = nil
			}
			m := newMeter(t, key)
			m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
				Price: price}}})
			if c.notOpenAI { // which refuses it
				m.takeAll(t)
			}
			m.configure()
			plain := ask40
			if stream {
				plain = stream40
			}
			x, reply := m.chat(strings.TrimSuffix(plain, "}") + c.asked + "}")
			if c.refused != "" {
				require.NotNil(t, reply.Immediate)
				require.Equal(t, 400, reply.Immediate.Status)
				require.Contains(t, string(reply.Immediate.Body), `"param":"`+c.refused+`"`)
				continue
			}
			require.NotNil(t, reply.Plan, "%s %+v", c.asked, reply.Immediate)
			reserved := m.reserved[0].Amounts[limit.Cost]
			require.Equal(t, c.dearer, reserved > 120_000, "%s: %d", c.asked, reserved)
			given := ""
			if c.given != "" {
				given = `"service_tier":"` + c.given + `",`
			}
			if stream {
				answer(x, "200", "text/event-stream")
				x.ResponseBody(context.Background(),
					[]byte(strings.ReplaceAll(role+text+usage11+over, `"created":1,`, given+`"created":1,`)), true)
			} else {
				answer(x, "200", "application/json")
				x.ResponseBody(context.Background(), []byte(strings.Replace(whole, `"created":1,`, given+`"created":1,`, 1)), true)
			}
			r := x.Close()
			e := r.Entry()
			require.Equal(t, c.cost, e.GetCostNanoUsd(), c.asked)
			require.True(t, strings.HasSuffix(e.GetPriceVersion(), c.ends), e.GetPriceVersion())
			require.Len(t, m.settled, 1)
		}
	}
}

// TestWhatHasNoPriceIsRefusedUnderABudget is each parameter that the documents list so.
func TestWhatHasNoPriceIsRefusedUnderABudget(t *testing.T) {
	for param, c := range map[string][2]string{
		"service_tier": {"/v1/chat/completions", `"messages":[{"role":"user","content":"hi"}],"service_tier":"flex"`},
		"web_search_options": {"/v1/chat/completions",
			`"messages":[{"role":"user","content":"hi"}],"web_search_options":{"search_context_size":"high"}`},
		"plugins": {"/v1/chat/completions",
			`"messages":[{"role":"user","content":"hi"}],"plugins":[{"id":"web"}]`},
		"models": {"/v1/chat/completions", `"messages":[{"role":"user","content":"hi"}],"models":["dear/x"]`},
		"enable_search": {"/v1/chat/completions",
			`"messages":[{"role":"user","content":"hi"}],"enable\u005fsearch":true`},
		"search_parameters": {"/v1/responses", `"input":"hi","search_parameters":{"mode":"on"}`},
		"tools": {"/v1/responses",
			`"input":"hi","tools":[{"type":"function","name":"f"},{"type":"web_search_preview"}]`},
	} {
		body := `{"model":"a/m-1",` + c[1] + `}`
		m := newMeter(t, fullKey())
		_, reply := m.ask(c[0], body)
		require.NotNil(t, reply.Immediate, param)
		require.Contains(t, string(reply.Immediate.Body), `"param":"`+param+`"`)
		require.Len(t, m.settled, 1)
		require.Zero(t, m.settled[0][limit.Cost]+m.settled[0][limit.Tokens], "nothing is charged")
		m = newMeter(t, &configv1.Key{Name: "key_1"})
		_, reply = m.ask(c[0], body)
		require.Nil(t, reply.Immediate, "%s without a budget", param)
	}
	m := newMeter(t, fullKey())
	_, reply := m.ask("/v1/responses",
		`{"model":"a/m-1","input":"hi","tools":[{"type":"function","name":"f"},{"type":"mcp"}]}`)
	require.Nil(t, reply.Immediate, "what costs tokens alone passes")
}

// TestAFormSaysWhatCountsOnce: which of two the vendor takes, nobody knows.
func TestAFormSaysWhatCountsOnce(t *testing.T) {
	field := func(name, value string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
	}
	for _, name := range []string{"model", "n", "user", "service_tier", "size", "quality"} {
		m := newMeter(t, fullKey())
		form := field("model", "a/m-1")
		for range 2 {
			form += field(name, "1")
		}
		x := exchange.New(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/images/edits"},
			{Name: "authorization", Value: "Bearer " + m.secret},
			{Name: "content-type", Value: "multipart/form-data; boundary=b"}}, false)
		reply := x.RequestBody(t.Context(), []byte(form+"--b--\r\n"))
		require.NotNil(t, reply.Immediate, name)
		require.Contains(t, string(reply.Immediate.Body), "duplicate_parameter", name)
	}
}

// TestAFormIsChargedForAsManyImagesAsItAsks, and one of which that is not certain is refused, under a budget or not.
func TestAFormIsChargedForAsManyImagesAsItAsks(t *testing.T) {
	for n, images := range map[string]int64{"5": 5, " 5": 0, "+5": 0, "05": 0} {
		m := newMeter(t, fullKey())
		m.config.Catalog = pricedImages()
		m.configure()
		x := exchange.New(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/images/edits"},
			{Name: "authorization", Value: "Bearer " + m.secret},
			{Name: "content-type", Value: "multipart/form-data; boundary=b"}}, false)
		reply := x.RequestBody(t.Context(),
			[]byte("--b\r\nContent-Disposition: form-data; name=model\r\n\r\na/m-1\r\n--b\r\nContent-Disposition: form-data; name=n\r\n\r\n"+n+"\r\n--b--\r\n"))
		if images == 0 {
			require.NotNil(t, reply.Immediate, n)
			require.Equal(t, 400, reply.Immediate.Status)
			require.Contains(t, string(reply.Immediate.Body), `"param":"n"`)
			continue
		}
		require.Nil(t, reply.Immediate)
		require.Equal(t, images*10_000_000+1000, m.reserved[0].Amounts[limit.Cost], "with a token of text")
		answer(x, "200", "application/json")
		x.ResponseBody(context.Background(), []byte(`{"data":[]}`), true)
		require.Equal(t, images*10_000_000+1000, int64(x.Close().Cost))
	}
	m := newMeter(t, fullKey())
	reply := exchange.New(m.env, m.config).RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/responses"},
		{Name: "authorization", Value: "Bearer " + m.secret},
		{Name: "content-type", Value: "multipart/form-data; boundary=b"}}, false)
	require.NotNil(t, reply.Immediate, "what a form asks of tools is not read")
	require.Equal(t, 415, reply.Immediate.Status)
}

// TestServiceTiersCostWhatTheirPagesSay: in millionths of a dollar, for a thousand tokens that are read, a thousand
// that were cached and a thousand of answer. Azure has prices of its own. The page rounds gpt-5.4's cached flex price.
func TestServiceTiersCostWhatTheirPagesSay(t *testing.T) {
	used := usage.Used{Usage: openai.Usage{PromptTokens: 2_000, CachedTokens: 1_000, CompletionTokens: 1_000}}
	for _, want := range []struct {
		model, tier string
		cost        float64 // 0: it has no price
	}{
		{"gpt-5.5", "", 35_500}, {"gpt-5.5", "fast", 88_750}, {"gpt-5.5", "priority", 88_750}, {"gpt-5.5", "flex", 17_750},
		{"gpt-5.4", "priority", 35_500}, {"gpt-5.4", "flex", 8_875}, {"gpt-5.4-mini", "fast", 10_650},
		{"gpt-5.2", "priority", 31_850}, {"gpt-5.2", "flex", 0},
		{"gpt-5.1", "priority", 22_750}, {"gpt-5.1", "flex", 0}, {"gpt-5.1-codex-max", "priority", 0},
		{"gpt-5", "flex", 5_687.5}, {"gpt-5-chat-latest", "priority", 0},
		{"gpt-5-mini", "priority", 4_095}, {"gpt-5-nano", "priority", 0}, {"gpt-5-nano", "flex", 227.5},
		{"gpt-4.1", "priority", 18_375}, {"gpt-4.1-nano", "priority", 1_050},
		{"gpt-4o", "priority", 23_375}, {"gpt-4o-mini", "priority", 1_375}, {"o3", "priority", 18_375},
		{"o3", "flex", 5_250}, {"o4-mini", "fast", 10_500},
		{"gpt-6-sol", "priority", 24_400}, {"gpt-6-sol", "ultrafast", 0}, {"gpt-6.2-sol", "ultrafast", 36_300},
	} {
		rates, known := usage.Compile(catalog.New(nil).Facts("openai", want.model).GetPrice()).In(want.tier)
		require.Equal(t, want.cost > 0, known, want)
		if cost, _ := rates.Cost(used); known {
			require.EqualValues(t, want.cost*1000, cost, want)
		}
		_, known = usage.Compile(catalog.New(nil).Facts("azure", want.model).GetPrice()).In("priority")
		require.False(t, known, want)
	}
}

// TestManyCallsOfToolsAreNotFree: neither how many tools a request lists nor how many calls it allows has a sum run
// over.
func TestManyCallsOfToolsAreNotFree(t *testing.T) {
	price := &configv1.Price{Input: "1", Output: "2", Tools: []*configv1.ToolPrice{{Name: "web_search", Call: "1000"},
		{Name: "file_search", Call: "9000"}}}
	for _, tools := range []string{strings.Repeat(`{"type":"web_search"},`, 9999),
		strings.Repeat(`{"type":"web_search"},{"type":"file_search"},`, 4999)} {
		m := newMeter(t, fullKey())
		m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
			Price: price}}})
		m.configure()
		_, reply := m.ask("/v1/responses", `{"model":"a/m-1","input":"hi","max_tool_calls":9007199254740991,"tools":[`+tools+
			`{"type":"function"}]}`)
		require.NotNil(t, reply.Immediate)
		require.Contains(t, string(reply.Immediate.Body), "insufficient_quota")
	}
}
