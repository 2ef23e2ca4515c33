package exchange_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/limit"
)

func TestRefusals(t *testing.T) {
	const one = `{"model":"a/m-1","messages":[{"role":"user","content":"hi"}],"max_tokens":10}`
	limited := func(domain string, unit configv1.Unit, n uint64) *configv1.Key {
		return &configv1.Key{Name: "key_1", Organization: "acme",
			Limits: []*configv1.Limit{{Domain: domain, Unit: unit, RequestsPerUnit: n}}}
	}
	for _, c := range []struct {
		name, body, typ, code, message string
		key                            *configv1.Key
		header                         map[string]string
		refusal                        string
	}{
		{"requests", one, "requests", "rate_limit_exceeded",
			"Rate limit reached for a/m-1 in organization acme on requests per min (RPM): Limit 1, Used 1, Requested 1. Please try again in 1m0.469s. The limit is of the key key_1.",
			limited("requests", configv1.Unit_MINUTE, 1), map[string]string{
				"Retry-After": "61", "Retry-After-Ms": "60469", "X-Ratelimit-Limit-Requests": "1",
				"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m0.469s", "X-Should-Retry": "",
			}, "key requests"},
		{"tokens", one, "tokens", "rate_limit_exceeded",
			"Rate limit reached for a/m-1 in organization acme on tokens per min (TPM): Limit 50, Used 30, Requested 30. Please try again in ",
			limited("tokens", configv1.Unit_MINUTE, 50), map[string]string{"X-Ratelimit-Limit-Tokens": "50",
				"X-Ratelimit-Remaining-Tokens": "20", "X-Should-Retry": ""}, "key tokens"},
		{"too large", `{"model":"a/m-1","messages":[{"role":"user","content":"hi"}],"max_tokens":1000}`, "tokens",
			"rate_limit_exceeded",
			"Request too large for a/m-1 in organization acme on output tokens per day: Limit 50, Requested 1000. ",
			limited("output_tokens", configv1.Unit_DAY, 50), map[string]string{"X-Should-Retry": "false", "Retry-After": "",
				"X-Ratelimit-Limit-Tokens": "50"}, "key output_tokens"},
		{"concurrency", one, "requests", "rate_limit_exceeded",
			"Rate limit reached in organization acme on concurrent requests: Limit 1, Used 1, Requested 1. Please try again in ",
			limited("concurrency", 0, 1), map[string]string{"X-Should-Retry": ""}, "key concurrency"},
		{"what is left of a budget is reserved", one, "requests", "rate_limit_exceeded",
			"Requests that run have reserved what is left of the budget of $0.00005 a day of the key key_1: $0.00001 is free, and the request may cost $0.00004. Please try again in 1s.",
			&configv1.Key{Name: "key_1", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.00005"}}},
			map[string]string{"X-Should-Retry": "", "Retry-After": "1"}, "key cost"},
		{"a budget", one, "insufficient_quota", "insufficient_quota",
			"You exceeded your current quota, please check your plan and billing details: of the budget of $0.00003 a day of the key key_1, $0.00003 is left, and the request may cost $0.00004. That is more than the whole of it.",
			&configv1.Key{Name: "key_1", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.00003"}}},
			map[string]string{"X-Should-Retry": "false", "Retry-After": ""}, "key cost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMeter(t, c.key)
			if c.name != "too large" && c.name != "a budget" {
				_, reply := m.chat(one)
				require.NotNil(t, reply.Plan)
			}
			x, reply := m.chat(c.body)
			require.NotNil(t, reply.Immediate)
			require.Equal(t, 429, reply.Immediate.Status)
			body := string(reply.Immediate.Body)
			require.Contains(t, body, c.message)
			require.Contains(t, body, `"type":"`+c.typ+`","param":null,"code":"`+c.code+`"`)
			for name, want := range c.header {
				require.Equal(t, want, reply.Immediate.Header.Get(name), name)
			}
			require.Equal(t, []string{c.refusal}, m.refusals)
			r := x.Close()
			require.False(t, r.Dispatched)
			require.Empty(t, m.settled)
		})
	}
}

func TestAGuessIsNeverTooLarge(t *testing.T) {
	key := &configv1.Key{Name: "key_1", Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_MINUTE,
		RequestsPerUnit: 100}}}
	m := newMeter(t, key)
	_, reply := m.chat(`{"model":"a/m-1","messages":[{"role":"user","content":"hi"}]}`)
	require.NotNil(t, reply.Plan)
	require.EqualValues(t, 100, m.reserved[0].Amounts[limit.Tokens])
}

func TestWhatIsReserved(t *testing.T) {
	data := strings.Repeat("QUJD", 1000)
	for name, c := range map[string]struct {
		body   string
		output int64
	}{
		"what it says":        {`{"max_tokens":7}`, 7},
		"as OpenAI says now":  {`{"max_completion_tokens":8}`, 8},
		"of several":          {`{"max_completion_tokens":8,"n":3}`, 24},
		"no more than it can": {`{"max_tokens":1000000}`, 4000},
		"nothing":             {`{"temperature":1}`, 256},
		"no limit":            {`{"max_tokens":-1}`, 256},
		"data are not text":   {`{"x":"data:image/png;base64,` + data + `","max_tokens":1}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, &configv1.Key{Name: "key_1",
				Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: 1 << 40}}})
			m.takeAll(t)
			m.chat(`{"model":"a/m-1","messages":[{"role":"user","content":"hi"}],` + c.body[1:])
			require.NotEmpty(t, m.reserved)
			require.Equal(t, c.output, m.reserved[0].Amounts[limit.OutputTokens])
			require.Less(t, m.reserved[0].Amounts[limit.InputTokens], int64(1100))
		})
	}
}

func TestTheStoreMayBeAway(t *testing.T) {
	m := newMeter(t, fullKey())
	m.env.Limits = away{}
	_, reply := m.chat(ask40)
	require.Equal(t, 503, reply.Immediate.Status)
	require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
	require.Contains(t, string(reply.Immediate.Body), `"limits_unavailable"`)

	free := newMeter(t, &configv1.Key{Name: "key_1"})
	free.env.Limits = away{}
	_, reply = free.chat(ask40)
	require.NotNil(t, reply.Plan, "a key without limits does not need the store")
}

type away struct{ limit.Limiter }

func (away) Reserve(context.Context, limit.Demand) (limit.Decision, error) {
	return limit.Decision{}, errors.New("away")
}
