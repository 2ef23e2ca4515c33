package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/request"
)

func facts() *policy.Facts {
	return &policy.Facts{Subject: request.Subject{Key: "key_1", KeyName: "ci", Organization: "acme", Project: "web",
		User: "ann", Token: map[string][]string{"groups": {"staff", "ml"}, "none": nil}, Address: "10.1.2.3"},
		Model: "openai/gpt-5", Operation: "chat/completions", Stream: true, Tools: []string{"get_time", "delete"},
		Size: 1000, Now: time.Date(2026, 11, 25, 20, 0, 0, 0, time.UTC)}
}

func compile(t testing.TB, rules ...*configv1.PolicyRule) policy.Policies {
	t.Helper()
	p := &configv1.Policy{Name: "p", Rules: rules}
	require.NoError(t, configv1.Validate(p, nil).Err())
	all, err := policy.Policies(nil).Next([]*configv1.Policy{p})
	require.NoError(t, err)
	return all
}

func TestExpressions(t *testing.T) {
	for deny, want := range map[string]bool{
		`model.startsWith("openai/") && user != "ann"`:                           false,
		`model.startsWith("openai/") && !(user in ["bob"])`:                      true,
		`key.organization == "acme" && key.project == "web" && key.name == "ci"`: true,
		`tools.exists(t, t.startsWith("delete"))`:                                true,
		`tools.all(t, t in ["get_time"])`:                                        false,
		`now.getHours("Europe/Berlin") >= 21`:                                    true,
		`now.getHours() >= 21`:                                                   false,
		`now < timestamp("2026-01-01T00:00:00Z")`:                                false,
		`size > 100000 || operation == "embeddings"`:                             false,
		`stream && address.startsWith("10.")`:                                    true,
		`model.matches("gpt-[0-9]+$")`:                                           true,
		`"staff" in token.groups`:                                                true,
		`token.groups.exists(g, g.startsWith("ops"))`:                            false,
		`has(token.dept) && "it" in token.dept`:                                  false,
		`size(token.none) == 0`:                                                  true,
		`key["id"] == "key_1"`:                                                   true,
	} {
		d := compile(t, &configv1.PolicyRule{Name: "r", Deny: deny}).Decide(facts())
		require.Equal(t, want, d.Denied == "p/r", deny)
	}
}

func TestARequestWithoutATokenHasNoClaims(t *testing.T) {
	f := facts()
	f.Token = nil
	for deny, want := range map[string]bool{`has(token.groups)`: false, `!has(token.groups) || "x" in token.groups`: true,
		`size(token) == 0`: true, `"groups" in token`: false} {
		d := compile(t, &configv1.PolicyRule{Name: "r", Deny: deny}).Decide(f)
		require.Equal(t, want, d.Denied != "", deny)
	}
}

func TestWhatIsToldAndObserved(t *testing.T) {
	all := compile(t, &configv1.PolicyRule{Name: "seen", Deny: "true", Observe: true},
		&configv1.PolicyRule{Name: "night", Deny: "now.getHours() > 18", Message: "Come back in the morning."})
	d := all.Decide(facts())
	require.Equal(t, policy.Decision{Denied: "p/night", Message: "Come back in the morning.",
		Observed: []string{"p/seen"}}, d)
	d = compile(t, &configv1.PolicyRule{Name: "r", Deny: "true"}).Decide(facts())
	require.Equal(t, "The policy 'p/r' does not allow this request.", d.Message)
}

func TestTheFirstRuleThatFitsChoosesTheModel(t *testing.T) {
	use := func(name, when, model string) *configv1.PolicyRule {
		return &configv1.PolicyRule{Name: name, When: when, UseModel: model}
	}
	seen := use("seen", "stream", "z")
	seen.Observe = true
	for name, c := range map[string]struct {
		rules []*configv1.PolicyRule
		want  policy.Decision
	}{
		"the first": {[]*configv1.PolicyRule{use("no", "!stream", "a"), use("yes", "stream", "b"), use("late", "true", "c")},
			policy.Decision{Chosen: "p/yes", Model: "b"}},
		"one that observes": {[]*configv1.PolicyRule{seen, use("yes", "stream", "b")},
			policy.Decision{Chosen: "p/yes", Model: "b", Observed: []string{"p/seen"}}},
		"a later refusal goes by what was asked for": {[]*configv1.PolicyRule{use("yes", "stream", "b"),
			{Name: "b", Deny: `model == "b"`}, {Name: "no", Deny: `model == "openai/gpt-5"`, Message: "No."}},
			policy.Decision{Chosen: "p/yes", Model: "b", Denied: "p/no", Message: "No."}},
		"one that fails": {[]*configv1.PolicyRule{use("bad", `key["nothing"] == "x"`, "b")},
			policy.Decision{Denied: "p/bad", Message: "The policy 'p/bad' could not decide on this request, and so refuses it."}},
	} {
		require.Equal(t, c.want, compile(t, c.rules...).Decide(facts()), name)
	}
}

func TestWrongEffects(t *testing.T) {
	for says, r := range map[string]*configv1.PolicyRule{
		"rules[0].use_model: needs when":           {Name: "r", Deny: "true", UseModel: "m"},
		"rules[0].when: cannot be in a rule":       {Name: "r", Deny: "true", When: "true", UseModel: "m"},
		"rules[0].use_model: must be 1 to":         {Name: "r", When: "true"},
		"rules[0].message: is only for rules with": {Name: "r", When: "true", UseModel: "m", Message: "x"},
		"rules[0].when: must be an expression":     {Name: "r", When: "nothing", UseModel: "m"},
		"rules[0].use_model: must be":              {Name: "r", When: "true", UseModel: "a b\n"},
	} {
		require.ErrorContains(t, configv1.Validate(&configv1.Policy{Name: "p", Rules: []*configv1.PolicyRule{r}},
			nil).Err(), says)
	}
}

func TestAnExpressionThatFailsRefuses(t *testing.T) {
	long := strings.Repeat(`tools.exists(c, a + b + c == "`+strings.Repeat("x", 50)+`") || `, 20)
	for _, deny := range []string{`key["nothing"] == "x"`, `!("staff" in token.dept)`, `tools[999] == "x"`,
		`tools.exists(a, tools.exists(b, ` + long + `false))`} {
		f := facts()
		for range 200 {
			f.Tools = append(f.Tools, "t")
		}
		began := time.Now()
		d := compile(t, &configv1.PolicyRule{Name: "r", Deny: deny}).Decide(f)
		require.Equal(t, "p/r", d.Denied, "%.60s", deny)
		require.Contains(t, d.Message, "could not decide")
		require.Less(t, time.Since(began), time.Second, "its work is bounded")
	}
}

func TestWhosePolicyItIs(t *testing.T) {
	rules := []*configv1.PolicyRule{{Name: "r", Deny: "true"}}
	for name, c := range map[string]struct {
		policy *configv1.Policy
		denied bool
	}{
		"everybody's":    {&configv1.Policy{Name: "p", Rules: rules}, true},
		"of the project": {&configv1.Policy{Name: "p", Organization: "acme", Project: "web", Rules: rules}, true},
		"of another":     {&configv1.Policy{Name: "p", Organization: "acme", Project: "app", Rules: rules}, false},
		"of another key": {&configv1.Policy{Name: "p", Key: "key_2", Rules: rules}, false},
	} {
		all, err := policy.Policies(nil).Next([]*configv1.Policy{c.policy})
		require.NoError(t, err)
		require.Equal(t, c.denied, all.Decide(facts()).Denied != "", name)
	}
}

func TestWrongExpressions(t *testing.T) {
	for deny, says := range map[string]string{
		``: "Syntax error", `model`: "must be true or false", `model == 1`: "no matching overload",
		`token.groups == "a"`: "no matching overload", `models == "a"`: "undeclared reference to 'models'",
		`model.startsWith(`: "Syntax error", `1 +`: "Syntax error",
	} {
		p := &configv1.Policy{Name: "p", Rules: []*configv1.PolicyRule{{Name: "r", Deny: deny}}}
		err := configv1.Validate(p, nil).Err()
		require.ErrorContains(t, err, "rules[0].deny: must be an expression in CEL: ", deny)
		require.ErrorContains(t, err, says, deny)
	}
}

func BenchmarkDecide(b *testing.B) {
	all := compile(b, &configv1.PolicyRule{Name: "r",
		Deny: `model.startsWith("gpt") && !tools.exists(t, t == "x") && now.getHours() > 23`})
	f := facts()
	for b.Loop() {
		all.Decide(f)
	}
}

func TestAFormSaysOnlyHowLargeItIs(t *testing.T) {
	const said = `{"user":"ann","tools":[{"type":"function","function":{"name":"search"}}]}`
	var f, form policy.Facts
	f.Read(&inbound.Request{Sent: openai.MembersOf([]byte(said))}, len(said), offered.Read([]byte(said)))
	require.Equal(t, policy.Facts{Subject: request.Subject{User: "ann"}, Tools: []string{"search"},
		Size: len(said)}, f)
	form.Read(&inbound.Request{}, 7, offered.Read([]byte(said)))
	require.Equal(t, policy.Facts{Size: 7}, form)
}
