package exchange_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider/all"
)

// A vendorAnswer is one answer of a vendor in its own form, whole and streamed.
type vendorAnswer struct{ whole, streamed string }

const (
	claudeUsage = `{"input_tokens":100,"cache_creation_input_tokens":30,"cache_read_input_tokens":2000,` +
		`"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"output_tokens":7}`
	geminiUsage = `{"promptTokenCount":2100,"cachedContentTokenCount":2000,"candidatesTokenCount":7,` +
		`"thoughtsTokenCount":5,"totalTokenCount":2112}`
	openAIUsage = `{"prompt_tokens":2100,"completion_tokens":12,"total_tokens":2112,` +
		`"prompt_tokens_details":{"cached_tokens":2000},"completion_tokens_details":{"reasoning_tokens":5}}`
	responseUsage = `{"input_tokens":2100,"output_tokens":12,"total_tokens":2112,` +
		`"input_tokens_details":{"cached_tokens":2000},"output_tokens_details":{"reasoning_tokens":5}}`
	geminiText = `{"candidates":[{"content":{"role":"model","parts":[{"text":"hello"}]},"finishReason":"STOP"}],` +
		`"usageMetadata":` + geminiUsage + `,"modelVersion":"m-1","responseId":"r"}`
	responseText = `{"id":"r","object":"response","status":"completed","model":"m-1","output":[{"type":"message",` +
		`"id":"x","role":"assistant","content":[{"type":"output_text","text":"hello"}]}],"usage":` + responseUsage + `}`
)

// answersOf are what each vendor answers to a request of its own API. The second one is for clients of the Responses
// API, which OpenAI serves itself.
var answersOf = map[string][]vendorAnswer{
	"anthropic": {{`{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":"hello"}],` +
		`"stop_reason":"end_turn","stop_sequence":null,"usage":` + claudeUsage + `}`,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\"," +
			"\"model\":\"m-1\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":" +
			strings.Replace(claudeUsage, `:7}`, `:1}`, 1) + "}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n" +
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":7}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"}},
	"gemini": {{geminiText, "data: " + geminiText + "\n\n"}},
	"openai": {{`{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":` +
		`{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":` + openAIUsage + `}`,
		said + ended + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` +
			openAIUsage + "}\n\ndata: [DONE]\n\n"},
		{responseText, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":0,\"response\":" +
			responseText + "}\n\n"}},
}

// TestAnExchangeCostsTheSameInEveryDialect, with what is read from a cache and written to one, and reasoning, at the
// price of the time at which it began.
func TestAnExchangeCostsTheSameInEveryDialect(t *testing.T) {
	price := &configv1.Price{Input: "1", Output: "2", CachedInput: "0.1", CacheWrite: "1.25", CacheWriteHour: "2",
		Reasoning: "3"}
	costs := map[string]int64{ // nano-dollars
		"anthropic": 100*1000 + 2000*100 + 10*1250 + 20*2000 + 7*2000,
		"gemini":    100*1000 + 2000*100 + 7*2000 + 5*3000,
		"openai":    100*1000 + 2000*100 + 7*2000 + 5*3000,
	}
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for vendor, cost := range costs {
		for name, ask := range map[string][3]string{ // the path, that of a stream, the body
			"chat":      {"/v1/chat/completions", "", `{"model":"a/m-1",` + messages + `}`},
			"messages":  {"/v1/messages", "", `{"model":"a/m-1","max_tokens":40,` + messages + `}`},
			"responses": {"/v1/responses", "", `{"model":"a/m-1","input":"hi"}`},
			"gemini": {"/v1beta/models/a/m-1:generateContent", "/v1beta/models/a/m-1:streamGenerateContent?alt=sse",
				`{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
		} {
			told := answersOf[vendor][0]
			if name == "responses" {
				told = answersOf[vendor][len(answersOf[vendor])-1]
			}
			for _, stream := range []bool{false, true} {
				m := newMeter(t, fullKey())
				config := &configv1.Provider{Name: "a", Vendor: vendor}
				p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: config, Credential: "sk-provider"},
					all.Providers()[vendor])
				require.NoError(t, err)
				m.config.Providers["a"] = p
				dear := &configv1.Price{Input: "9", Output: "9"}
				m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
					Price: dear, LaterPrices: []*configv1.LaterPrice{{From: timestamppb.New(m.now), Price: price},
						{From: timestamppb.New(m.now.Add(time.Second)), Price: dear}}}}})
				m.configure()
				path, body, media, said := ask[0], ask[2], "application/json", told.whole
				if stream {
					media, said = "text/event-stream", told.streamed
					if path = ask[1]; path == "" {
						path, body = ask[0], strings.TrimSuffix(ask[2], "}")+`,"stream":true}`
					}
				}
				x := exchange.New(m.env, m.config)
				head := x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
					{Name: ":path", Value: path}, {Name: "authorization", Value: "Bearer " + m.secret}}, false)
				require.Nil(t, head.Immediate, "%s to %s", name, vendor)
				sent := x.RequestBody(t.Context(), []byte(body))
				require.Nil(t, sent.Immediate, "%s to %s: %+v", name, vendor, sent.Immediate)
				m.now = m.now.Add(time.Minute) // the price is that of the beginning
				answer(x, "200", media)
				x.ResponseBody(t.Context(), []byte(said), true)
				x.Close()
				require.Equal(t, cost, m.ended[0].GetCostNanoUsd(), "%s to %s, streamed: %v: %v", name, vendor, stream, m.ended[0])
			}
		}
	}
}
