package exchange_test

import (
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/respcache"
)

// limitedWhen returns a meter with one limit, of a request or 1000 tokens a minute, for the requests of an expression.
func limitedWhen(t *testing.T, expression string, counts limit.Measure) *meter {
	m := newMeter(t, &configv1.Key{Name: "key_1", DisplayName: "ci", Organization: "acme"})
	of := &rlsv3.RateLimitDescriptor{Key: "key", RateLimit: &rlsv3.RateLimitPolicy{Unit: rlsv3.RateLimitUnit_MINUTE,
		RequestsPerUnit: 1}}
	if counts == limit.Tokens {
		of.RateLimit.RequestsPerUnit = 1000
	}
	if expression != "" {
		of = &rlsv3.RateLimitDescriptor{Key: configv1.WhenDescriptor, Value: expression,
			Descriptors: []*rlsv3.RateLimitDescriptor{of}}
	}
	l, err := access.NewRateLimit(&rlsv3.RateLimitConfig{Domain: counts.String(),
		Descriptors: []*rlsv3.RateLimitDescriptor{of}})
	require.NoError(t, err)
	m.config.RateLimits = map[string]*access.RateLimit{"l": l}
	m.configure()
	return m
}

const limitL = "ratelimit/l limit requests per minute"

func TestALimitIsForTheRequestsOfItsExpression(t *testing.T) {
	asked := strings.Replace(ask40, "{", `{"user":"ann","tools":[{"type":"function","function":{"name":"search","parameters":{}}}],`, 1)
	for expression, applies := range map[string]bool{
		"":                                        true,
		`key.organization == "acme"`:              true,
		`key.name.startsWith("prod")`:             false,
		`user == "ann"`:                           true,
		`user == "bob"`:                           false,
		`model == "a/m-1" && stream`:              false,
		`"search" in tools`:                       true,
		`size > 100 && size < 1000`:               true,
		`size > 100000`:                           false,
		`operation == "messages"`:                 false,
		`"staff" in token.groups`:                 true, // there is no such claim: the expression fails
		`has(token.groups)`:                       false,
		`tools[7] == "x"`:                         true, // fails
		`now < timestamp("2000-01-01T00:00:00Z")`: false,
	} {
		t.Run(expression, func(t *testing.T) {
			m := limitedWhen(t, expression, limit.Requests)
			x, sent := m.chat(asked)
			require.Nil(t, sent.Immediate)
			answer(x, "200", "application/json")
			reply := x.ResponseBody(t.Context(), []byte(whole), true)
			if first := x.Close(); applies {
				require.Equal(t, []string{limitL}, first.Rules)
				require.EqualValues(t, 1, first.Settled[limit.Requests])
				require.Equal(t, "0", told(reply, "x-ratelimit-remaining-requests"))
			} else {
				require.Empty(t, first.Rules)
				require.Empty(t, m.reserved, "nothing is counted")
				require.Empty(t, told(reply, "x-ratelimit-limit-requests"), "and nothing is told")
			}
			x, sent = m.chat(asked)
			require.Equal(t, applies, sent.Immediate != nil)
			if applies {
				require.Equal(t, 429, sent.Immediate.Status)
				require.Equal(t, limitL, x.Close().RefusedBy)
			}
		})
	}
}

// TestRequestsOfOthersDoNotCount sends requests that a limit is for between requests that it is not for.
func TestRequestsOfOthersDoNotCount(t *testing.T) {
	m := limitedWhen(t, "size > 200", limit.Requests)
	small, large := ask40, strings.Replace(ask40, "hi", strings.Repeat("hi ", 100), 1)
	refused := func(body string) bool {
		x, reply := m.chat(body)
		x.Close()
		return reply.Immediate != nil
	}
	require.Equal(t, []bool{false, false, false, true, false, true}, []bool{refused(small), refused(small),
		refused(large), refused(large), refused(small), refused(large)})
	require.Len(t, m.settled, 1, "what is not reserved is not settled")
}

// TestWhatWasReservedIsSettled takes a limit away between the reservation of a request and its end.
func TestWhatWasReservedIsSettled(t *testing.T) {
	m := limitedWhen(t, "size < 200", limit.Tokens)
	x, sent := m.chat(ask40)
	require.Nil(t, sent.Immediate)
	m.config.RateLimits = nil
	m.configure()
	answer(x, "200", "application/json")
	x.ResponseBody(t.Context(), []byte(whole), true)
	require.EqualValues(t, 11, x.Close().Settled[limit.Tokens])
	states, err := m.env.Limits.Peek(t.Context(), m.reserved[0].Rules)
	require.NoError(t, err)
	require.EqualValues(t, 1000-11, states[0].Remaining)
}

func TestAPoliciesModelAndTheClientsTextsAreSeen(t *testing.T) {
	m := limitedWhen(t, `model == "both" && user == "ann@x.example"`, limit.Requests)
	asked := strings.Replace(ask40, "{", `{"user":"ann@x.example",`, 1)
	var err error
	m.config.Policies, err = policy.Policies(nil).Next([]*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{
		{Name: "r", When: `model == "a/m-1"`, UseModel: "both"}}}})
	require.NoError(t, err)
	m.config.Rails, err = guard.Compile([]*configv1.Guardrail{{Name: "g",
		Rules: []*configv1.GuardRule{emails(configv1.GuardMode_MASK)}}})
	require.NoError(t, err)
	m.configure()
	_, sent := m.chat(asked)
	require.Nil(t, sent.Immediate)
	require.NotContains(t, string(sent.Body), "ann@")
	x, sent := m.chat(asked)
	require.NotNil(t, sent.Immediate)
	require.Equal(t, limitL, x.Close().RefusedBy)
}

func TestKeptAnswersCountWhereTheLimitIsForThem(t *testing.T) {
	m := limitedWhen(t, "!stream", limit.Requests)
	var err error
	m.config.Caches, err = respcache.Compile([]*configv1.ResponseCache{{Name: "c", MaxTemperature: 1}}, []byte("p"), nil,
		nil, nil, nil)
	require.NoError(t, err)
	m.configure()
	ask := func(body, media, answered string) metering.Record {
		x, reply := m.chat(body)
		if reply.Immediate == nil {
			answer(x, "200", media)
			x.ResponseBody(t.Context(), []byte(answered), true)
		}
		return x.Close()
	}
	for range 3 {
		r := ask(stream40, "text/event-stream", chunkOf("hello")+ended+usage11+over)
		require.Empty(t, r.Rules)
		require.Empty(t, r.RefusedBy)
	}
	require.Len(t, m.begun, 1, "the others are kept answers")
	require.Equal(t, []string{limitL}, ask(ask40, "application/json", whole).Rules)
	require.Equal(t, limitL, ask(ask40, "application/json", whole).RefusedBy, "a kept answer counts as a request")
	require.Len(t, m.begun, 2)
}

// TestRequestsWhoseBodiesAreNotSeen are judged by what is known of them.
func TestRequestsWhoseBodiesAreNotSeen(t *testing.T) {
	for path, operation := range map[string]string{"/r/x": "route", "/v1/files": "files", "/v1/batches": "batches"} {
		for expression, applies := range map[string]bool{
			`operation == "` + operation + `"`: true, `size == 0 && size(tools) == 0 && model == "" && !stream`: true,
			`size > 0`: false, `key.id == "key_1"`: true, `tools[0] == "x"`: true, // fails
		} {
			t.Run(path+" "+expression, func(t *testing.T) {
				m := limitedWhen(t, expression, limit.Requests)
				for i := range 3 {
					x, reply := m.ask(path, ask40)
					x.Close()
					require.Equal(t, applies && i > 0, reply.Immediate != nil, i)
				}
			})
		}
	}
}

func TestASessionIsJudgedAtItsHandshake(t *testing.T) {
	for expression, applies := range map[string]bool{`operation == "realtime" && model == "a/talk" && stream`: true,
		"size > 0": false} {
		m := limitedWhen(t, expression, limit.Requests)
		for i := range 2 {
			x := exchange.New(m.env, m.config)
			reply := x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "GET"},
				{Name: ":path", Value: "/v1/realtime?model=a/talk"}, {Name: "authorization", Value: "Bearer " + m.secret},
				{Name: "connection", Value: "Upgrade"}, {Name: "upgrade", Value: "websocket"}}, false)
			require.Equal(t, applies && i > 0, reply.Immediate != nil, expression)
			x.Close()
		}
	}
}

// TestTokensOfASessionAreCountedWhereTheLimitIsForIt ends a session that has used up a limit of tokens.
func TestTokensOfASessionAreCountedWhereTheLimitIsForIt(t *testing.T) {
	for expression, applies := range map[string]bool{`stream`: true, "!stream": false} {
		m := limitedWhen(t, expression, limit.Tokens)
		c := newCall(t, &configv1.Key{})
		c.config.RateLimits = m.config.RateLimits
		c.open(t)
		for range 4 { // of 275 tokens
			c.piece(spoken)
		}
		require.Len(t, c.parts, 4)
		require.Equal(t, applies, len(c.parts[0].Rules) > 0, expression)
		require.Equal(t, applies, c.Exchange.Close().RefusedBy != "", expression)
	}
}

// TestALineOfABatchHasNoToken is judged as any other request, by what the job service says of it.
func TestALineOfABatchHasNoToken(t *testing.T) {
	m := limitedWhen(t, `size(token) == 0 && key.id == "key_1" && operation == "chat/completions"`, limit.Requests)
	for i := range 2 {
		x := exchange.NewInternal(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"}, {Name: "content-type", Value: "application/json"},
			{Name: envoy.HeaderKey, Value: "key_1"}}, false)
		reply := x.RequestBody(t.Context(), []byte(ask40))
		require.Equal(t, i == 1, reply.Immediate != nil)
		x.Close()
	}
}
