package access

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// when returns a limit of the requests of each key for which an expression is true.
func when(expression string, n uint32) *rlsv3.RateLimitConfig {
	return &rlsv3.RateLimitConfig{Domain: "requests", Descriptors: []*descriptor{{Key: configv1.WhenDescriptor,
		Value: expression, Descriptors: []*descriptor{per("key", "", n)}}}}
}

func TestAnExpressionDecidesOnTheRulesOfItsLimit(t *testing.T) {
	k := &Client{Name: "k", Limits: []*configv1.Limit{requestsPer(configv1.Unit_MINUTE, 9)}}
	const always, plain = "key/k/requests/minute", "ratelimit/plain/requests/minute/key=k"
	const large, tools = "ratelimit/large/requests/minute/key=k", "ratelimit/tools/requests/minute/key=k"
	unconditional := &rlsv3.RateLimitConfig{Domain: "requests", Descriptors: []*descriptor{per("key", "", 5)}}
	book := NewBook(Directory{RateLimits: limitsOf(t, map[string]*rlsv3.RateLimitConfig{"plain": unconditional,
		"large": when("size > 100", 2), "tools": when("size(tools) > 0", 3),
		"elsewhere": {Domain: "requests", Descriptors: []*descriptor{{Key: configv1.WhenDescriptor, Value: "stream",
			Descriptors: []*descriptor{per("organization", "other", 1)}}}}})}, nil)
	all := book.Rules(k, "", "m", "p")
	require.Len(t, all.conditions, 2, "no limit of others is looked at")
	for _, c := range []struct {
		size  int
		tools []string
		want  []string
	}{
		{1, nil, []string{always, plain}},
		{101, nil, []string{always, large, plain}},
		{1, []string{"search"}, []string{always, plain, tools}},
		{101, []string{"search"}, []string{always, large, plain, tools}},
	} {
		asked := 0
		set := all.For(func(when cel.Program) bool {
			asked++
			out, _, err := when.Eval(map[string]any{"size": c.size, "tools": append([]string{}, c.tools...)})
			require.NoError(t, err)
			return out.Value() == true
		})
		var counters []string
		for _, r := range set.Rules {
			counters = append(counters, r.Counter)
		}
		slices.Sort(counters)
		require.Equal(t, c.want, counters, "limits of one descriptor have counters of their own")
		require.Len(t, set.Names, len(c.want))
		require.Len(t, set.Scopes, len(c.want))
		require.Equal(t, 2, asked, "once each")
		for i := range set.Rules {
			require.True(t, strings.HasPrefix(set.Names[i], set.Scopes[i].Kind+"/"+set.Scopes[i].Name+" "))
		}
	}
	require.Equal(t, describe(all.Always()), describe(all.For(func(cel.Program) bool { return false })))
	require.Same(t, all, book.Rules(k, "", "m", "p"))
}

func TestWhatHoldsWithoutALimitOfSomeRequests(t *testing.T) {
	tokens := when("stream", 5)
	tokens.Domain = "tokens"
	d := &Directory{RateLimits: limitsOf(t, map[string]*rlsv3.RateLimitConfig{"r": tokens})}
	k := &Client{Name: "k", Bodies: &configv1.Bodies{Share: 1}}
	e := entriesOf(k, "", "m", "p")
	set := d.rulesOf(k, &e, nil, time.Time{})
	require.True(t, set.Metered)
	require.False(t, set.Always().Metered, "what is not limited is not metered")
	require.NotNil(t, set.Always().Bodies)
	require.Same(t, set, set.For(func(cel.Program) bool { return true }))

	none := (&Directory{}).rulesOf(k, &e, nil, time.Time{})
	require.Same(t, none, none.Always())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		require.Same(t, none, none.For(func(cel.Program) bool { panic("there is no expression") }))
	}))
}

func TestALimitWhoseExpressionCannotBeReadIsRefused(t *testing.T) {
	for _, expression := range []string{"size", "nothing", "size >"} {
		_, err := NewRateLimit(when(expression, 1))
		require.ErrorContains(t, err, "when: ", expression)
	}
}
