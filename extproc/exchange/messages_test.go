package exchange_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/extproc/exchange"
)

// ofMessages returns the exchange of a client of Anthropic's Messages API, and the request that its provider gets.
func ofMessages(t *testing.T, m *meter, members string) (*exchange.Exchange, exchange.Reply) {
	t.Helper()
	x := exchange.New(m.env, m.config)
	head := x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/messages?beta=true"}, {Name: "x-api-key", Value: m.secret},
		{Name: "anthropic-version", Value: "2023-06-01"}}, false)
	require.Nil(t, head.Immediate)
	require.Equal(t, "anthropic", head.Names.Dialect)
	require.Contains(t, head.Remove, "x-api-key")
	return x, x.RequestBody(t.Context(), []byte(`{"model":"a/m-1","max_tokens":40,"system":"be brief",
		"messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"u-1"}`+members+`}`))
}

func TestAClientOfAnthropicsReachesAnyProvider(t *testing.T) {
	m := newMeter(t, fullKey())
	x, sent := ofMessages(t, m, "")
	require.Equal(t, `{"model":"m-1","max_tokens":40,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"user":"u-1"}`,
		string(sent.Body))
	answer(x, "200", "application/json")
	out := x.ResponseBody(t.Context(), []byte(whole), true)
	require.Equal(t, `{"id":"msg_c","type":"message","role":"assistant","model":"a/m-1","content":[{"type":"text","text":"hello","citations":null}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}}`,
		string(out.Body))
	x.Close()
	require.Equal(t, "messages", m.ended[0].GetOperation())
	require.Equal(t, "u-1", m.ended[0].GetUser())
	require.EqualValues(t, 9, m.ended[0].GetInputTokens())
	require.EqualValues(t, 2, m.ended[0].GetOutputTokens())

	x, _ = ofMessages(t, m, `,"stream":true`)
	answer(x, "200", "text/event-stream")
	out = x.ResponseBody(t.Context(), []byte(said+ended+usage11+over), true)
	require.Contains(t, string(out.Body), `"delta":{"type":"text_delta","text":"hello"}`)
	require.Contains(t, string(out.Body), `"stop_reason":"end_turn"`)
	require.NotContains(t, string(out.Body), "chat.completion")
	x.Close()
	require.EqualValues(t, 2, m.ended[1].GetOutputTokens())
}

// said is a chunk with a piece of text, and ended the chunk that ends the choice.
const (
	said  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]}` + "\n\n"
	ended = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
)

func TestErrorsAreInTheClientsDialect(t *testing.T) {
	m := newMeter(t, fullKey())
	x := exchange.New(m.env, m.config)
	head := x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/messages"}, {Name: "x-request-id", Value: "r-1"}, {Name: "x-api-key", Value: "wrong"}},
		false)
	require.Equal(t, 401, head.Immediate.Status)
	require.Equal(t, "authentication_error", gjson.GetBytes(head.Immediate.Body, "error.type").Str)
	require.Equal(t, "r-1", head.Immediate.Header.Get("Request-Id"))

	_, reply := ofMessages(t, m, `,"tools":[{"name":"f"}]`)
	require.Equal(t, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.0.input_schema: Field required."}}`,
		string(reply.Immediate.Body))

	x, _ = ofMessages(t, m, `,"stream":true`)
	answer(x, "200", "text/event-stream")
	out := x.ResponseBody(t.Context(), []byte(said), false)
	require.Contains(t, string(out.Body), "message_start")
	out = x.ResponseBody(t.Context(), nil, true)
	require.Contains(t, string(out.Body), "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"")
	require.NotContains(t, string(out.Body), "message_stop")
}

func TestModelsAreListedInTheClientsDialect(t *testing.T) {
	m := newMeter(t, fullKey())
	for path, want := range map[string]string{
		"/v1/models":      `{"data":[{"type":"model","id":"both","display_name":"both","created_at":"2020-01-01T00:00:00Z"}],"has_more":false,"first_id":"both","last_id":"both"}`,
		"/v1/models/both": `{"type":"model","id":"both","display_name":"both","created_at":"2020-01-01T00:00:00Z"}`,
		"/v1/models/none": `{"type":"error","error":{"type":"not_found_error","message":"The model ` + "`none`" + ` does not exist or you do not have access to it."}}`,
	} {
		head := exchange.New(m.env, m.config).RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "GET"},
			{Name: ":path", Value: path}, {Name: "x-api-key", Value: m.secret},
			{Name: "anthropic-version", Value: "2023-06-01"}}, true)
		require.Equal(t, want, string(head.Immediate.Body))
	}
}

func TestTokensAreCountedWithoutCharge(t *testing.T) {
	m := newMeter(t, fullKey())
	x := exchange.New(m.env, m.config)
	x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/messages/count_tokens"}, {Name: "x-api-key", Value: m.secret}}, false)
	reply := x.RequestBody(t.Context(), []byte(`{"model":"a/m-1","system":"be brief","messages":[{"role":"user","content":"How many tokens are there in this sentence?"}]}`))
	require.Equal(t, 200, reply.Immediate.Status)
	require.Equal(t, "estimate", reply.Immediate.Header.Get("X-Modelgate-Counted"))
	tokens := gjson.GetBytes(reply.Immediate.Body, "input_tokens").Int()
	require.True(t, 10 < tokens && tokens < 30, tokens)
	require.Zero(t, x.Close().Usage)
}

// TestCountedTokensLeaveNothingBehind counts more often than the limits of the key admit at once.
func TestCountedTokensLeaveNothingBehind(t *testing.T) {
	key := fullKey()
	key.Limits[0].RequestsPerUnit = 4
	m := newMeter(t, key)
	count := func() int {
		x, reply := m.ask("/v1/messages/count_tokens", `{"model":"a/m-1","messages":[{"role":"user","content":"hi"}]}`)
		x.Close()
		return reply.Immediate.Status
	}
	for range 4 {
		require.Equal(t, 200, count())
	}
	require.Equal(t, 429, count())
	m.now = m.now.Add(2 * time.Minute)
	require.Equal(t, 200, count(), "none of them is still inside")
}
