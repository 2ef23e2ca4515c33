package exchange_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/respcache"
)

func TestAGuardrailAppliesToTheRequestsOfItsExpression(t *testing.T) {
	for when, applies := range map[string]bool{
		"":                           true,
		`key.organization == "acme"`: true,
		`user == "ann"`:              true,
		`user.startsWith("b")`:       false,
		`model == "a/m-1" && stream`: false,
		`"search" in tools`:          true,
		`size > 100000`:              false,
		`"staff" in token.groups`:    true, // there is no such claim: the expression fails
		`now < timestamp("2000-01-01T00:00:00Z")`: false,
	} {
		t.Run(when, func(t *testing.T) {
			m := newMeter(t, fullKey())
			var err error
			m.config.Rails, err = guard.Compile([]*configv1.Guardrail{{Name: "g", When: when,
				Rules: []*configv1.GuardRule{emails(configv1.GuardMode_BLOCK)}}})
			require.NoError(t, err)
			_, reply := m.chat(strings.Replace(askMail, "{",
				`{"user":"ann","tools":[{"type":"function","function":{"name":"search","parameters":{}}}],`, 1))
			require.Equal(t, applies, reply.Immediate != nil)
			_, reply = m.ask("/r/messages", askMail)
			require.NotNil(t, reply.Immediate, "a Route's request cannot be seen")
		})
	}
}

// An answer that passed without a guardrail is not for a request to which it applies.
func TestAnAnswerIsNotSharedPastAGuardrail(t *testing.T) {
	m := newMeter(t, fullKey())
	m.key.Limits, m.key.Budgets = nil, nil
	m.configure()
	rules := []*configv1.GuardRule{emails(configv1.GuardMode_MASK, configv1.GuardSide_ANSWERS)}
	rails := []*configv1.Guardrail{{Name: "g", When: `key.name == "watched"`, Rules: rules},
		{Name: "of-a-project", Organization: m.key.GetOrganization(), Project: "other", Rules: rules}}
	var err error
	m.config.Rails, err = guard.Compile(rails)
	require.NoError(t, err)
	m.config.Caches, err = respcache.Compile([]*configv1.ResponseCache{{Name: "c", MaxTemperature: 1}}, []byte("p"),
		rails, nil, nil, nil)
	require.NoError(t, err)
	ask := func() string {
		x, reply := m.chat(ask40)
		if reply.Immediate != nil {
			return string(reply.Immediate.Body)
		}
		answer(x, "200", "application/json")
		out := x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", "ask bob@x.example", 1)), true)
		x.Close()
		return string(out.Body)
	}
	require.Contains(t, ask(), "bob@")
	require.Contains(t, ask(), "bob@")
	require.Len(t, m.begun, 1, "the second is answered by the cache")
	m.key.DisplayName = "watched"
	m.configure()
	require.NotContains(t, ask(), "bob@")
	require.Len(t, m.begun, 2)
	m.key.DisplayName, m.key.Project = "", "other"
	m.configure()
	require.NotContains(t, ask(), "bob@", "another project of the organization, which shares the cache")
	require.Len(t, m.begun, 3)
}
