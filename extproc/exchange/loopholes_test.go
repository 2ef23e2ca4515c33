package exchange_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
)

const messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"

func TestARouteThatIsCutCountsWhatHasPassed(t *testing.T) {
	m := newMeter(t, fullKey())
	x, _ := m.ask("/r/messages", "", exchange.Header{Name: "content-length", Value: "400"})
	answer(x, "200", "text/event-stream")
	x.ResponseBody(context.Background(), []byte(messageStart), false)
	for range 1000 {
		x.ResponseBody(context.Background(),
			[]byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" hello there\"}}\n\n"), false)
	}
	r := x.Close()
	require.Equal(t, metering.OutcomeCut, r.Outcome)
	require.Greater(t, r.Usage.CompletionTokens, int64(1000))
}

func TestARouteWhoseStreamTellsNoUsageIsGuessed(t *testing.T) {
	m := newMeter(t, fullKey())
	x, _ := m.ask("/r/chat/completions", "", exchange.Header{Name: "content-length", Value: "400"})
	answer(x, "200", "text/event-stream")
	for range 1000 {
		x.ResponseBody(context.Background(),
			[]byte(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"content":" hello there"}}]}`+"\n\n"), false)
	}
	x.ResponseBody(context.Background(), []byte("data: [DONE]\n\n"), true)
	r := x.Close()
	require.Equal(t, metering.OutcomeFinished, r.Outcome)
	require.Greater(t, r.Usage.CompletionTokens, int64(1000))
	require.Positive(t, r.Cost)
}

func TestARoutesStreamMayBeAnArray(t *testing.T) {
	m := newMeter(t, fullKey())
	x, _ := m.ask("/r/models/m-1:streamGenerateContent", "")
	answer(x, "200", "application/json")
	x.ResponseBody(context.Background(),
		[]byte(`[{"candidates":[],"usageMetadata":{"promptTokenCount":9},"modelVersion":"m-1"},`+"\n"+
			`{"candidates":[],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11},"modelVersion":"m-1"}]`), true)
	r := x.Close()
	require.EqualValues(t, 11, r.Usage.TotalTokens)
	require.Equal(t, "0.000013", r.Cost.String())
}

func TestABudgetThatIsOnlyReservedIsNotSpent(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.0001"}}})
	first, _ := m.chat(ask40)
	_, reply := m.chat(ask40)
	require.NotNil(t, reply.Immediate)
	require.Empty(t, reply.Immediate.Header.Get("X-Should-Retry"))
	require.NotEmpty(t, reply.Immediate.Header.Get("Retry-After"))
	first.Close()
}

func TestWhoWaitsAsLongAsToldIsLetIn(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1",
		Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_SECOND, RequestsPerUnit: 1}}})
	for range 50 {
		m.now = m.now.Add(2*time.Second + 77*time.Microsecond)
		_, reply := m.chat(ask40)
		require.Nil(t, reply.Immediate)
		m.now = m.now.Add(time.Millisecond)
		_, reply = m.chat(ask40)
		ms, err := strconv.Atoi(reply.Immediate.Header.Get("Retry-After-Ms"))
		require.NoError(t, err)
		m.now = m.now.Add(time.Duration(ms) * time.Millisecond)
		_, reply = m.chat(ask40)
		require.Nil(t, reply.Immediate, "a client that waited as long as it was told")
	}
}

func TestFormsHaveUsersAndNumbers(t *testing.T) {
	m := newMeter(t, fullKey())
	m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{{Models: []string{"m-1"},
		Price: &configv1.Price{Image: "0.04"}, Capabilities: &configv1.Capabilities{MaxOutputTokens: proto.Int64(4000)}}}})
	m.configure()
	form := strings.ReplaceAll("--b\nContent-Disposition: form-data; name=\"model\"\n\na/m-1\n--b\nContent-Disposition: form-data; name=\"n\"\n\n5\n--b\nContent-Disposition: form-data; name=\"user\"\n\nbob\n--b--\n", "\n", "\r\n")
	x := exchange.New(m.env, m.config)
	x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/images/edits"}, {Name: "authorization", Value: "Bearer " + m.secret},
		{Name: "content-type", Value: "multipart/form-data; boundary=b"}}, false)
	reply := x.RequestBody(t.Context(), []byte(form))
	require.Nil(t, reply.Immediate)
	answer(x, "200", "application/json")
	x.ResponseBody(context.Background(), []byte(`{"created":1,"data":[]}`), true)
	r := x.Close()
	require.Equal(t, "bob", r.User)
	require.Equal(t, "0.2", r.Cost.String())
}

func TestAnAnswerInTheBackgroundIsRefusedUnderABudget(t *testing.T) {
	m := newMeter(t, fullKey())
	x, reply := m.ask("/v1/responses", `{"model":"a/m-1","input":"hi","background":true,"max_output_tokens":900}`)
	if reply.Immediate != nil {
		return
	}
	answer(x, "200", "application/json")
	x.ResponseBody(context.Background(),
		[]byte(
			`{"id":"resp_1","object":"response","status":"queued","background":true,"model":"m-1","output":[],"usage":null}`),
		true)
	r := x.Close()
	require.Positive(t, r.Usage.CompletionTokens)
}

func TestSpeechCountsItsPrompt(t *testing.T) {
	m := newMeter(t, fullKey())
	x, _ := m.ask("/v1/audio/speech", `{"model":"a/m-1","input":"`+strings.Repeat("hello ", 200)+`","voice":"alloy"}`)
	answer(x, "200", "audio/mpeg")
	r := x.Close()
	require.Equal(t, metering.OutcomeFinished, r.Outcome)
	require.Positive(t, r.Usage.PromptTokens)
}

func TestARouteTakesAPlaceAtItsProvider(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"}, &configv1.Concurrency{MaxRequests: 1})
	_, reply := m.chat(ask40)
	require.NotNil(t, reply.Plan)
	_, reply = m.ask("/r/x", "")
	require.NotNil(t, reply.Immediate, "the provider has one place, which is taken")
}

func TestALimitOfNothingSaysSo(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1",
		Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 0}}})
	_, reply := m.chat(ask40)
	require.NotContains(t, string(reply.Immediate.Body), "output tokens must be reduced")
}

func TestReadingAStoredAnswerIsNotChargedAgain(t *testing.T) {
	m := newMeter(t, fullKey())
	x := exchange.New(m.env, m.config)
	x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "GET"},
		{Name: ":path", Value: "/r/responses/resp_1"}, {Name: "authorization", Value: "Bearer " + m.secret}}, true)
	if answer(x, "200", "application/json").ResponseBody == exchange.Streamed {
		x.ResponseBody(context.Background(),
			[]byte(`{"id":"resp_1","model":"m-1","status":"completed","usage":{"input_tokens":10,"output_tokens":40,"total_tokens":50}}`), true)
	}
	r := x.Close()
	require.Zero(t, r.Usage.TotalTokens, "it was charged when it was made")
}

func TestAPartOfALimitIsToldHonestly(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1",
		Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 300}}})
	m.env.Limits = limit.Divide(m.env.Limits, limit.Division{Part: 0.5})
	_, reply := m.chat(`{"model":"a/m-1","messages":[{"role":"user","content":"hi"}],"max_tokens":200}`)
	require.NotNil(t, reply.Immediate)
	t.Log(string(reply.Immediate.Body), reply.Immediate.Header)
	require.Equal(t, "false", reply.Immediate.Header.Get("X-Should-Retry"), "it will never be admitted")
	_, reply = m.chat(`{"model":"a/m-1","messages":[{"role":"user","content":"hi"}]}`)
	require.Nil(t, reply.Immediate, "a guess is never what makes a request too large")
}

// TestARoutesAnswerThatNamesNoModelHasThePriceOfItsPath is how Bedrock answers, also with what cannot be read.
func TestARoutesAnswerThatNamesNoModelHasThePriceOfItsPath(t *testing.T) {
	m := newMeter(t, fullKey())
	x, _ := m.ask("/r/model/m%2D1/converse?x=/model/y", "")
	answer(x, "200", "application/json")
	x.ResponseBody(context.Background(),
		[]byte(`{"output":{},"usage":{"inputTokens":9,"outputTokens":2,"totalTokens":11}}`), true)
	r := x.Close()
	require.Equal(t, "0.000013", r.Cost.String())
	x, _ = m.ask("/r/model/m-1/converse-stream", "", exchange.Header{Name: "content-length", Value: "400"})
	answer(x, "200", "application/vnd.amazon.eventstream")
	r = x.Close()
	require.Equal(t, "0.0001", r.Cost.String())
	x, _ = m.ask("/r/model/nonsense/converse", "")
	answer(x, "200", "application/json")
	x.ResponseBody(context.Background(), []byte(`{"usage":{"inputTokens":9,"outputTokens":2}}`), true)
	r = x.Close()
	require.Empty(t, r.Upstream, "what a client has made up is nothing to count by")
}

// TestReportsAreRequests: each is a query of the ledger's database, which all tenants share.
func TestReportsAreRequests(t *testing.T) {
	m := newMeter(t, keyWith("requests", configv1.Unit_MINUTE, 2))
	statuses := []int{}
	for range 3 {
		x, reply := m.headersOnly("GET", "/v1/organization/costs")
		statuses = append(statuses, reply.Immediate.Status)
		x.Close()
	}
	require.Equal(t, []int{503, 503, 429}, statuses, "there is no ledger here")
}
