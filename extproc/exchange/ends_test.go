package exchange_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	openaiapi "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// TestEveryEndSettlesOnce is the heart of accounting: however an exchange ends, what it reserved is settled once with
// what it used, and the ledger has it once, before the client can see the end.
func TestEveryEndSettlesOnce(t *testing.T) {
	used := limit.Amounts{limit.Requests: 1, limit.Tokens: 11, limit.InputTokens: 9, limit.OutputTokens: 2,
		limit.Cost: 13_000}
	only := limit.Amounts{limit.Requests: 1}
	for _, c := range []struct {
		name    string
		body    string
		run     func(x *exchange.Exchange)
		outcome string // in the ledger when the exchange closes; "" where the journal writes it
		used    limit.Amounts
	}{
		{"a whole answer", ask40, func(x *exchange.Exchange) {
			answer(x, "200", "application/json")
			x.ResponseBody(context.Background(), []byte(whole), true)
		}, "finished", used},
		{"a stream", stream40, func(x *exchange.Exchange) {
			answer(x, "200", "text/event-stream")
			x.ResponseBody(context.Background(), []byte(role+text+usage11+over), true)
		}, "finished", used},
		{"a stream that is cut after its usage", stream40, func(x *exchange.Exchange) {
			answer(x, "200", "text/event-stream")
			x.ResponseBody(context.Background(), []byte(role+text+usage11), false)
		}, "", used},
		{"a stream that ends too soon", stream40, func(x *exchange.Exchange) {
			answer(x, "200", "text/event-stream")
			x.ResponseBody(context.Background(), []byte(role+text+usage11), true)
		}, "truncated", used},
		{"refused by the provider", ask40, func(x *exchange.Exchange) {
			answer(x, "400", "application/json")
			x.ResponseBody(context.Background(), []byte(`{"error":{"message":"no"}}`), true)
		}, "rejected", only},
		{"the provider fails", ask40, func(x *exchange.Exchange) {
			answer(x, "500", "application/json")
			x.ResponseBody(context.Background(), []byte(`{}`), true)
		}, "failed", only},
		{"the provider has too much to do", ask40, func(x *exchange.Exchange) {
			x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "429"}}, exchange.Facts{Cluster: "a/first", Attempts: 1,
				CodeDetails: envoy.CodeDetailsUpstream}, true)
		}, "failed", only},
		{"a stream that begins with an error", stream40, func(x *exchange.Exchange) {
			answer(x, "200", "text/event-stream")
			x.ResponseBody(context.Background(), []byte(role+failure), false)
		}, "failed", only},
		{"no provider can be reached", ask40, func(x *exchange.Exchange) {
			x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "503"}}, exchange.Facts{Cluster: "a/first", Attempts: 2,
				CodeDetails: "upstream_reset"}, false)
		}, "", only},
		{"the stream is killed within an error", ask40, func(x *exchange.Exchange) { answer(x, "500", "application/json") },
			"", only},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMeter(t, fullKey())
			x, reply := m.chat(c.body)
			require.NotNil(t, reply.Plan, "%+v", reply.Immediate)
			require.Len(t, m.reserved, 1)
			require.EqualValues(t, 40, m.reserved[0].Amounts[limit.OutputTokens])
			require.Len(t, m.begun, 1)
			require.Positive(t, m.begun[0].GetInputTokens())
			require.Positive(t, m.begun[0].GetCostNanoUsd())
			c.run(x)
			if c.outcome != "" {
				require.Len(t, m.ended, 1, "before the exchange closes")
			}
			r := x.Close()
			require.Equal(t, []limit.Amounts{c.used}, m.settled)
			if c.outcome == "" {
				require.Empty(t, m.ended)
				require.True(t, r.AwaitsEnvoy() && r.Dispatched)
			} else {
				require.Len(t, m.ended, 1)
				require.Equal(t, c.outcome, m.ended[0].GetOutcome())
				require.Equal(t, m.begun[0].GetId(), m.ended[0].GetId())
			}
			e := r.Entry()
			require.Equal(t, c.used[limit.InputTokens], e.GetInputTokens())
			require.Equal(t, c.used[limit.Cost], e.GetCostNanoUsd())
			require.Equal(t, "acme", e.GetOrganization())
			require.NotEmpty(t, e.GetPriceVersion())
			states, err := m.env.Limits.Peek(t.Context(), m.reserved[0].Rules)
			require.NoError(t, err)
			for i, rule := range m.reserved[0].Rules {
				require.Equal(t, rule.Limit-max(0, c.used[rule.Measure]), states[i].Remaining, rule.Counter)
			}
		})
	}
}

// TestWhatNobodyReportsIsCounted is about answers that end before their usage: the text that has come is counted.
func TestWhatNobodyReportsIsCounted(t *testing.T) {
	for name, run := range map[string]func(x *exchange.Exchange){
		"cut": func(x *exchange.Exchange) {
			answer(x, "200", "text/event-stream")
			x.ResponseBody(context.Background(), []byte(role+strings.Repeat(text, 20)), false)
		},
		"without any usage": func(x *exchange.Exchange) {
			answer(x, "200", "text/event-stream")
			x.ResponseBody(context.Background(), []byte(role+strings.Repeat(text, 20)+over), true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, fullKey())
			x, _ := m.chat(stream40)
			run(x)
			r := x.Close()
			require.True(t, r.Estimated)
			require.Positive(t, r.Usage.PromptTokens)
			require.Positive(t, r.Usage.CompletionTokens)
			require.Len(t, m.settled, 1)
			require.Equal(t, r.Usage.CompletionTokens, m.settled[0][limit.OutputTokens])
		})
	}
	t.Run("the client leaves before the answer", func(t *testing.T) {
		m := newMeter(t, fullKey())
		x, _ := m.chat(ask40)
		r := x.Close()
		require.True(t, r.Estimated)
		require.Positive(t, r.Usage.PromptTokens)
		require.Zero(t, r.Usage.CompletionTokens)
		require.Equal(t, "interrupted", r.Entry().GetOutcome(), "unless Envoy says by whom it was cut")
	})
}

// TestWhatNeverGoesOutIsFree is pitfall 104. That it was read counts as a request.
func TestWhatNeverGoesOutIsFree(t *testing.T) {
	for _, body := range []string{`{}`, `{"model":"nowhere/x","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"a/m-1","messages":[]}`} {
		m := newMeter(t, fullKey())
		x, reply := m.chat(body)
		require.NotNil(t, reply.Immediate)
		x.Close()
		require.Equal(t, []limit.Amounts{{limit.Requests: 1}}, m.settled)
		require.Empty(t, m.begun)
		require.Empty(t, m.ended, "a flood of refusals must not fill the ledger")
	}
	m := newMeter(t, fullKey(), &configv1.Concurrency{MaxRequests: 1})
	m.chat(ask40)
	x, reply := m.chat(ask40)
	require.True(t, reply.Queue)
	require.EqualValues(t, 503, x.Turn(t.Context()).Immediate.Status)
	x.Close()
	require.Equal(t, []limit.Amounts{{}}, m.settled, "all of the reservation is given back")
	require.Len(t, m.begun, 1)
}

func TestARetryIsChargedByWhoAnswers(t *testing.T) {
	m := newMeter(t, fullKey())
	m.config.Models["both"].Targets[1].Model = "m-2"
	m.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{
		{Models: []string{"m-1"}, Price: &configv1.Price{Input: "1", Output: "2"}},
		{Models: []string{"m-2"}, Price: &configv1.Price{Input: "10", Output: "20"}},
	}})
	x, reply := m.chat(strings.Replace(ask40, "a/m-1", "both", 1))
	require.NotNil(t, reply.Plan)
	require.GreaterOrEqual(t, m.reserved[0].Amounts[limit.Cost], int64(40*20_000), "the dearest target is reserved")
	_, err := reply.Plan.Encode(2)
	require.NoError(t, err)
	x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "200"},
		{Name: "content-type", Value: "application/json"}},
		exchange.Facts{Cluster: "b/retry", Attempts: 2, CodeDetails: envoy.CodeDetailsUpstream}, false)
	x.ResponseBody(context.Background(), []byte(whole), true)
	r := x.Close()
	require.Equal(t, usage.Nano(130_000), r.Cost)
	require.Len(t, m.settled, 1)
	require.Empty(t, m.ended, "the journal writes it, once Envoy has told of the first attempt")
	e := r.Entry()
	require.Equal(t, "b", e.GetProvider())
	require.Len(t, e.GetAttemptList(), 2)
	require.Equal(t, "a", e.GetAttemptList()[0].GetProvider())
	require.Equal(t, "fallback", e.GetAttemptList()[1].GetKind())
	require.EqualValues(t, 200, e.GetAttemptList()[1].GetStatus())
}

// TestOneRetryBudget is pitfall 102.
func TestOneRetryBudget(t *testing.T) {
	for name, c := range map[string]struct {
		attempts int
		header   exchange.Header
		want     string
	}{
		"all attempts are used up":       {2, exchange.Header{Name: "x", Value: "y"}, "false"},
		"one was made":                   {1, exchange.Header{Name: "x", Value: "y"}, ""},
		"the provider says when to come": {2, exchange.Header{Name: "retry-after", Value: "7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, fullKey())
			x, reply := m.chat(strings.Replace(ask40, "a/m-1", "both", 1))
			for n := 2; n <= c.attempts; n++ {
				_, err := reply.Plan.Encode(n)
				require.NoError(t, err)
			}
			reply = x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "503"}, c.header},
				exchange.Facts{Cluster: "a/first", Attempts: c.attempts, CodeDetails: envoy.CodeDetailsUpstream}, true)
			require.Equal(t, c.want, reply.Immediate.Header.Get("X-Should-Retry"))
			require.NotEmpty(t, reply.Immediate.Header.Get("X-Ratelimit-Limit-Tokens"), "failures tell the limits too")
		})
	}
}

func TestTheCostIsTold(t *testing.T) {
	for value, want := range map[string]string{"true": "0.000013", "": ""} {
		m := newMeter(t, fullKey())
		x, _ := m.ask("/v1/chat/completions", ask40, exchange.Header{Name: "x-modelgate-include-cost", Value: value})
		answer(x, "200", "application/json")
		reply := x.ResponseBody(context.Background(), []byte(whole), true)
		require.Equal(t, want, reply.Head.Set.Get("x-modelgate-cost-usd"))
		require.Equal(t, "9", reply.Head.Set.Get("x-ratelimit-remaining-requests"))
		require.NotEmpty(t, reply.Head.Set.Get("x-ratelimit-reset-tokens"))
	}
}

func TestALineIsChargedUnderItsId(t *testing.T) {
	m := newMeter(t, fullKey())
	line := func(status, body string) *ledgerv1.Record {
		x := exchange.NewInternal(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"},
			{Name: envoy.HeaderKey, Value: "key_1"}, {Name: envoy.HeaderCharge, Value: "batch_1/7" + envoy.ChargeAgain}}, false)
		require.NotNil(t, x.RequestBody(t.Context(), []byte(ask40)).Plan)
		answer(x, status, "application/json")
		x.ResponseBody(context.Background(), []byte(body), true)
		x.Close()
		return m.ended[len(m.ended)-1]
	}
	failed := line("500", "{}")
	require.NotEqual(t, "batch_1/7", failed.GetId(), "a try that failed must not hide the one that succeeds")
	require.True(t, failed.GetTried(), "it is no request")
	done := line("200", whole)
	require.Equal(t, "batch_1/7", done.GetId())
	require.False(t, done.GetTried())
	require.Len(t, m.settled, 2, "the key's limits hold for lines")
	cut := (&metering.Record{ID: "x", Charge: "batch_1/8", Outcome: metering.OutcomeCancelled,
		Usage: openaiapi.Usage{PromptTokens: 5}, Cost: 7}).Entry()
	require.Equal(t, "x", cut.GetId())
	require.EqualValues(t, 5, cut.GetInputTokens(), "the provider bills the attempt, though the line is asked again")
	require.EqualValues(t, 7, cut.GetCostNanoUsd())
	require.Len(t, m.begun, 2, "a process that dies charges what it has sent")
	require.Equal(t, m.begun[1].GetId(), m.ended[1].GetExchange(), "the end of the line is that of its exchange")
}

func TestARouteIsMetered(t *testing.T) {
	const events = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	for name, c := range map[string]struct{ contentType, body string }{
		"events":     {"text/event-stream", events},
		"a document": {"application/json", whole},
		"Gemini's document": {"application/json",
			`{"candidates":[],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11},"modelVersion":"m-1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, fullKey())
			x, reply := m.ask("/r/messages", "", exchange.Header{Name: "content-length", Value: "400"},
				exchange.Header{Name: "accept-encoding", Value: "gzip"})
			require.True(t, reply.PassRequest)
			require.NotNil(t, reply.Plan)
			require.Contains(t, reply.Remove, "accept-encoding")
			require.EqualValues(t, 100, m.reserved[0].Amounts[limit.InputTokens])
			reply = answer(x, "200", c.contentType)
			require.Equal(t, exchange.Streamed, reply.ResponseBody)
			require.True(t, reply.PassRequest, "the request's body goes on as it did")
			require.Equal(t, "9", reply.Set.Get("x-ratelimit-remaining-requests"))
			for piece := range strings.SplitSeq(c.body, ":") {
				if reply := x.ResponseBody(context.Background(), []byte(piece), false); reply.ReplaceBody {
					t.Fatal("it passes as it is")
				}
				x.ResponseBody(context.Background(), []byte(":"), false)
			}
			x.ResponseBody(context.Background(), nil, true)
			r := x.Close()
			require.Equal(t, metering.OutcomeFinished, r.Outcome)
			require.Equal(t, usage.Nano(13_000), r.Cost)
			require.Len(t, m.settled, 1)
			require.EqualValues(t, 11, m.settled[0][limit.Tokens])
		})
	}
	t.Run("nothing is to be metered", func(t *testing.T) {
		m := newMeter(t, &configv1.Key{Name: "key_1",
			Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1}}})
		x, _ := m.ask("/r/messages", "")
		require.Equal(t, exchange.Keep, answer(x, "200", "application/json").ResponseBody)
		x.Close()
		_, reply := m.ask("/r/messages", "")
		require.Equal(t, 429, reply.Immediate.Status, "requests are counted all the same")
	})
}

// TestThePathIsSetUnlessItStays: a client's query does not go to the provider.
func TestThePathIsSetUnlessItStays(t *testing.T) {
	for query, want := range map[string]string{"": "", "?": chats, "?key=secret": chats} {
		_, sent := newMeter(t, fullKey()).ask(chats+query, ask40)
		require.NotNil(t, sent.Plan, query)
		require.Equal(t, want, sent.Set.Get(":path"), query)
	}
}
