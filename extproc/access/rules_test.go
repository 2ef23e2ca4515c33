package access

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/message"
	"github.com/modelgate/modelgate/internal/limit"
)

// describe writes rules one a line, sorted.
func describe(set *Rules) string {
	var lines []string
	for i, r := range set.Rules {
		line := fmt.Sprintf("%s %d (%d/%d, %s)", r.Counter, r.Limit, r.Measure, r.Window, set.Scopes[i].Kind)
		if r.Shadow {
			line += " shadow"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func requestsPer(unit configv1.Unit, n uint64) *configv1.Limit {
	return &configv1.Limit{Domain: "requests", Unit: unit, RequestsPerUnit: n}
}

func TestRulesOfTenants(t *testing.T) {
	c := &Directory{
		Organizations: map[string]*configv1.Organization{"acme": {
			Limits:  []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_DAY, RequestsPerUnit: 1 << 50}},
			Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "0.50"}},
		}},
		Projects: map[string]*configv1.Project{
			"acme/web": {Limits: []*configv1.Limit{{Domain: "concurrency", RequestsPerUnit: 3}},
				Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "10"}}},
			"other/web": {Limits: []*configv1.Limit{requestsPer(configv1.Unit_MINUTE, 1)}},
		},
	}
	k := &Client{
		Name: "key_1", Organization: "acme", Project: "web",
		Limits: []*configv1.Limit{
			requestsPer(configv1.Unit_SECOND, 9), requestsPer(configv1.Unit_MINUTE, 5), requestsPer(configv1.Unit_MINUTE, 4),
			requestsPer(configv1.Unit_MINUTE, 6), requestsPer(configv1.Unit_HOUR, 7),
			{Domain: "input_tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 8, Model: "openai/*"},
			{Domain: "output_tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 8, Model: "mistral/*"},
			{Domain: "money", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1},
			requestsPer(configv1.Unit_MONTH, 1), requestsPer(configv1.Unit_UNIT_UNSPECIFIED, 1),
		},
		Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}, {Unit: configv1.Unit_MONTH, Usd: "2"},
			{Unit: configv1.Unit_HOUR, Usd: "3"}, {Unit: configv1.Unit_DAY, Usd: "x"}},
	}
	e := entriesOf(k, "", "openai/gpt", "openai")
	require.Equal(t, strings.Join([]string{
		"budget/key/key_1/day 1000000000 (5/5, key)",
		"budget/key/key_1/month 2000000000 (5/6, key)",
		"budget/organization/acme/month 500000000 (5/6, organization)",
		"budget/project/acme/web/day 10000000000 (5/5, project)",
		"key/key_1/input_tokens/minute/openai/* 8 (2/2, key)",
		"key/key_1/requests/hour 7 (0/3, key)",
		"key/key_1/requests/minute 4 (0/2, key)", // the strictest of three
		"key/key_1/requests/second 9 (0/1, key)",
		"organization/acme/tokens/day 1125899906842624 (1/4, organization)",
		"project/acme/web/concurrency/now 3 (4/0, project)",
	}, "\n"), describe(c.rulesOf(k, &e, nil, time.Time{})))
	require.True(t, c.rulesOf(k, &e, nil, time.Time{}).Metered)

	plain := &Client{Name: "key_2", Limits: []*configv1.Limit{requestsPer(configv1.Unit_MINUTE, 5)}}
	e = entriesOf(plain, "", "m", "p")
	require.Equal(t, "key/key_2/requests/minute 5 (0/2, key)", describe(c.rulesOf(plain, &e, nil, time.Time{})))
	require.False(t, c.rulesOf(plain, &e, nil, time.Time{}).Metered)
}

type descriptor = rlsv3.RateLimitDescriptor

// per returns a descriptor with a limit by minute, or without one for 0.
func per(key, value string, n uint32, below ...*descriptor) *descriptor {
	d := &descriptor{Key: key, Value: value, Descriptors: below}
	if n > 0 {
		d.RateLimit = &rlsv3.RateLimitPolicy{Unit: rlsv3.RateLimitUnit_MINUTE, RequestsPerUnit: n}
	}
	return d
}

// limitsOf makes limits ready for use.
func limitsOf(t *testing.T, configs map[string]*rlsv3.RateLimitConfig) map[string]*RateLimit {
	all := map[string]*RateLimit{}
	for name, c := range configs {
		l, err := NewRateLimit(c)
		require.NoError(t, err)
		all[name] = l
	}
	return all
}

func TestDescriptorsMatchAsEnvoysDo(t *testing.T) {
	k := &Client{Name: "key_1", Organization: "acme", Project: "web"}
	alice := counterValue(entryUser, "", &entries{entryOrganization: "acme", entryUser: "alice"})
	for _, c := range []struct {
		name string
		in   []*descriptor
		want string // without what they all have
	}{
		{"any value, each apart", []*descriptor{per("model", "", 5)}, "/model=openai/gpt-4.1 5"},
		{"exactly one", []*descriptor{per("model", "openai/gpt-4.1", 5), per("model", "openai/gpt-4", 6)},
			"/model=openai/gpt-4.1 5"},
		{"a pattern, all together", []*descriptor{per("model", "openai/*", 5)}, "/model=openai/* 5"},
		{"another", []*descriptor{per("model", "mistral/*", 5), per("project", "web", 5), per("region", "", 5)}, ""},
		{"the most specific of siblings", []*descriptor{per("model", "", 5), per("model", "openai/*", 6),
			per("model", "openai/gpt-4.1", 7)}, "/model=openai/gpt-4.1 7"},
		{"the longer pattern", []*descriptor{per("model", "*", 4), per("model", "openai/*", 5),
			per("model", "openai/gpt-*", 6), per("model", "", 7)}, "/model=openai/gpt-* 6"},
		{"the most specific has no limit", []*descriptor{per("model", "", 5), per("model", "openai/gpt-4.1", 0)}, ""},
		{"siblings of other keys", []*descriptor{per("model", "", 5), per("provider", "openai", 6)},
			"/model=openai/gpt-4.1 5\n/provider=openai 6"},
		{"nested", []*descriptor{per("organization", "acme", 0, per("model", "", 5, per("provider", "openai", 6)))},
			"/organization=acme/model=openai/gpt-4.1 5\n/organization=acme/model=openai/gpt-4.1/provider=openai 6"},
		{"nested, elsewhere", []*descriptor{per("organization", "other", 9, per("model", "", 5))}, ""},
		{"nested, not below the more specific", []*descriptor{per("organization", "acme", 0),
			per("organization", "", 0, per("model", "", 5))}, ""},
		{"a project by its full name", []*descriptor{per("project", "acme/web", 5)}, "/project=acme/web 5"},
		{"key", []*descriptor{per("key", "key_1", 5)}, "/key=key_1 5"},
		{"users", []*descriptor{per("user", "", 5)}, "/user=" + alice + " 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := &Directory{RateLimits: limitsOf(t, map[string]*rlsv3.RateLimitConfig{"r": {Domain: "tokens",
				Descriptors: c.in}})}
			e := entriesOf(k, "alice", "openai/gpt-4.1", "openai")
			got := strings.ReplaceAll(describe(config.rulesOf(k, &e, nil, time.Time{})), " (1/2, ratelimit)", "")
			got = strings.ReplaceAll(got, "ratelimit/r/tokens/minute", "")
			require.Equal(t, c.want, got)
		})
	}
}

func TestDescriptorsThatDoNotLimit(t *testing.T) {
	shadow, unlimited := per("key", "", 5), per("key", "", 5)
	shadow.ShadowMode, unlimited.RateLimit.Unlimited = true, true
	k := &Client{Name: "k"}
	e := entriesOf(k, "", "m", "p")
	for want, d := range map[string]*descriptor{"ratelimit/r/concurrency/now/key=k 5 (4/0, ratelimit) shadow": shadow,
		"": unlimited} {
		c := &Directory{RateLimits: limitsOf(t, map[string]*rlsv3.RateLimitConfig{"r": {Domain: "concurrency",
			Descriptors: []*descriptor{d}}, "unknown": {Domain: "x", Descriptors: []*descriptor{per("key", "", 1)}}})}
		require.Equal(t, want, describe(c.rulesOf(k, &e, nil, time.Time{})))
	}
}

func TestUsersOfTenantsAreCountedApart(t *testing.T) {
	c := &Directory{RateLimits: limitsOf(t, map[string]*rlsv3.RateLimitConfig{"r": {Domain: "requests",
		Descriptors: []*descriptor{per("user", "", 5)}}})}
	d := NewBook(*c, nil)
	require.True(t, d.users)
	counters := map[string]bool{}
	for _, k := range []*Client{{Name: "a"}, {Name: "b"}, {Name: "a", Organization: "o"},
		{Name: "b", Organization: "o"}} {
		for _, user := range []string{"alice", strings.Repeat("long", 64)} {
			set := d.Rules(k, user, "m", "p")
			require.Len(t, set.Rules, 1)
			require.Less(t, len(set.Rules[0].Counter), 80)
			counters[set.Rules[0].Counter] = true
		}
		require.Empty(t, d.Rules(k, "", "m", "p").Rules, "without a user there is nothing to count")
	}
	require.Len(t, counters, 6, "keys of one organization share its users")
}

func TestRulesAreRememberedByConfiguration(t *testing.T) {
	k := &Client{Name: "k", Limits: []*configv1.Limit{requestsPer(configv1.Unit_MINUTE, 1)}}
	d := NewBook(Directory{}, nil)
	first := d.Rules(k, "u", "m", "p")
	require.Same(t, first, d.Rules(k, "v", "m", "p"))
	require.NotSame(t, first, d.Rules(k, "", "other", "p"))
	require.NotSame(t, first, NewBook(Directory{}, nil).Rules(k, "", "m", "p"))
	for i := range 2 * maxSets {
		d.Rules(k, "", fmt.Sprint("p/", i), "p")
	}
	require.LessOrEqual(t, d.sets.Len(), maxSets)
}

func TestTheNearestLimitIsTold(t *testing.T) {
	rule := func(m limit.Measure, w limit.Window, n int64) limit.Rule {
		return limit.Rule{Measure: m, Window: w, Limit: n}
	}
	set := &Rules{
		Rules: []limit.Rule{
			rule(limit.Requests, limit.Day, 10), rule(limit.Requests, limit.Minute, 100), rule(limit.Requests, limit.Second, 4),
			rule(limit.Requests, limit.Hour, 10),
			rule(limit.Tokens, limit.Hour, 1000), rule(limit.OutputTokens, limit.Hour, 50),
			rule(limit.Concurrency, limit.Now, 1), rule(limit.Cost, limit.CalendarDay, 1),
			{Measure: limit.Requests, Window: limit.Minute, Limit: 1, Shadow: true},
		},
		Scopes: slices.Repeat([]Scope{{Kind: scopeKey}}, 9),
	}
	set.Scopes[4].Kind = scopeProject
	d := limit.Decision{Refused: -1, States: []limit.State{
		{Remaining: 0}, {Remaining: 60, Reset: 59_999_900_000}, {Remaining: 3}, {Remaining: 1},
		{Remaining: 900, Reset: 1_780_123_456}, {Remaining: 49, Reset: 360e9}, {}, {}, {},
	}}
	require.Equal(t, message.Headers{
		{Name: "x-ratelimit-limit-requests", Value: "100"}, {Name: "x-ratelimit-remaining-requests", Value: "60"},
		{Name: "x-ratelimit-reset-requests", Value: "1m0s"},
		{Name: "x-ratelimit-limit-tokens", Value: "1000"}, {Name: "x-ratelimit-remaining-tokens", Value: "900"},
		{Name: "x-ratelimit-reset-tokens", Value: "1.78s"},
		{Name: "x-ratelimit-limit-project-tokens", Value: "1000"}, {Name: "x-ratelimit-remaining-project-tokens",
			Value: "900"}, {Name: "x-ratelimit-reset-project-tokens", Value: "1.78s"},
	}, set.Headers(d))
	d.Refused = 0
	require.Equal(t, "10", set.Headers(d)[0].Value, "that which refuses comes first")
	d.Refused = 5
	require.Equal(t, message.Header{Name: "x-ratelimit-reset-tokens", Value: "6m0s"}, set.Headers(d)[5])
	require.Nil(t, (&Rules{Rules: set.Rules[6:], Scopes: set.Scopes[6:]}).Headers(limit.Decision{Refused: -1,
		States: d.States[6:]}))
}
