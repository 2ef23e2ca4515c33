package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/policy"
)

// All expressions on a request have a bound together: what is evaluated after it refuses the request.
func TestTheWorkOfAllPoliciesIsBounded(t *testing.T) {
	dear := `tools.exists(a, tools.exists(b, a + b == "x"))`
	rules := func(n int) (all []*configv1.PolicyRule) {
		for i := range n {
			all = append(all, &configv1.PolicyRule{Name: fmt.Sprintf("r%d", i), Deny: dear})
		}
		return all
	}
	f := facts()
	f.Tools = strings.Split(strings.Repeat("t,", 40), ",")
	require.Empty(t, compile(t, rules(2)...).Decide(f).Denied)
	f = facts()
	f.Tools = strings.Split(strings.Repeat("t,", 40), ",")
	all := compile(t, rules(100)...)
	d := all.Decide(f)
	require.NotEmpty(t, d.Denied)
	require.Contains(t, d.Message, "could not decide")
}

func TestPoliciesThatHaveNotChangedAreNotCompiledAgain(t *testing.T) {
	p := func(name, deny string) *configv1.Policy {
		return &configv1.Policy{Name: name, Rules: []*configv1.PolicyRule{{Name: "r", Deny: deny}}}
	}
	first, err := policy.Policies(nil).Next([]*configv1.Policy{p("a", "true"), p("b", "true")})
	require.NoError(t, err)
	next, err := first.Next([]*configv1.Policy{p("b", "false"), p("a", "true")})
	require.NoError(t, err)
	require.Same(t, first[0], next[1])
	require.NotSame(t, first[1], next[0])
	_, err = first.Next([]*configv1.Policy{p("c", "no")})
	require.ErrorContains(t, err, "Policy c: rule r")
}

// Twice the rules, the policies or the tools cost twice as much.
func TestWorkOnARequestInProportionToPolicies(t *testing.T) {
	spent := func(policies, rules, tools int) uint64 {
		var all []*configv1.Policy
		for i := range policies {
			p := &configv1.Policy{Name: fmt.Sprintf("p%d", i)}
			for j := range rules {
				p.Rules = append(p.Rules, &configv1.PolicyRule{Name: fmt.Sprintf("r%d", j),
					Deny: `tools.exists(t, t.startsWith("x")) || model.matches("^x[0-9]{1,9}$")`})
			}
			all = append(all, p)
		}
		compiled, err := policy.Policies(nil).Next(all)
		require.NoError(t, err)
		f := facts()
		f.Tools = strings.Split(strings.Repeat("t,", tools), ",")
		require.Empty(t, compiled.Decide(f).Denied)
		return f.Spent()
	}
	one := spent(2, 4, 50)
	require.Equal(t, 2*one, spent(4, 4, 50))
	require.Equal(t, 2*one, spent(2, 8, 50))
	require.LessOrEqual(t, spent(2, 4, 100), 2*one)
}
