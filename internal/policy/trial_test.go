package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/policy"
)

// TestATrialDoesNotGuess evaluates rules without some of the facts that they use.
func TestATrialDoesNotGuess(t *testing.T) {
	unknown := []string{"tools", "size", "address", "key.name"}
	for deny, want := range map[string][]policy.Verdict{
		`model == "openai/gpt-5"`:                   {{Rule: "p/r"}},
		`model == "other"`:                          nil,
		`model == "other" && size > 10`:             nil,
		`size > 10 && model == "other"`:             nil,
		`stream || tools.exists(t, t == "x")`:       {{Rule: "p/r"}},
		`tools.exists(t, t == "x") || stream`:       {{Rule: "p/r"}},
		`stream && tools.exists(t, t == "x")`:       {{Rule: "p/r", Unknown: []string{"tools"}}},
		`size > 1 || address.startsWith("1")`:       {{Rule: "p/r", Unknown: []string{"address", "size"}}},
		`key.name == "ci"`:                          {{Rule: "p/r", Unknown: []string{"key.name"}}},
		`key["name"] == "ci"`:                       {{Rule: "p/r", Unknown: []string{"key.name"}}},
		`key.id == "key_1"`:                         {{Rule: "p/r"}},
		`key["nothing"] == "x"`:                     {{Rule: "p/r", Failed: true}},
		`key["nothing"] == "x" && size > 1`:         {{Rule: "p/r", Unknown: []string{"size"}}},
		`tools.exists(t, t.startsWith(model + ""))`: {{Rule: "p/r", Unknown: []string{"tools"}}},
	} {
		trial, err := policy.NewTrial([]*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{{Name: "r",
			Deny: deny}}}}, piece)
		require.NoError(t, err, deny)
		got, err := trial.Judge(facts(), unknown)
		require.NoError(t, err, deny)
		require.Equal(t, want, got, deny)
	}
}

func TestATrialEndsAtTheRuleThatRefuses(t *testing.T) {
	rules := []*configv1.PolicyRule{{Name: "seen", Deny: "true", Observe: true}, {Name: "perhaps", Deny: "size > 1"},
		{Name: "no", Deny: "false"}, {Name: "surely", Deny: "stream"}, {Name: "never", Deny: "true"}}
	trial, err := policy.NewTrial([]*configv1.Policy{{Name: "q", Organization: "other", Rules: rules}, {Name: "p",
		Rules: rules}}, piece)
	require.NoError(t, err)
	got, err := trial.Judge(facts(), []string{"size"})
	require.NoError(t, err)
	require.Equal(t, []policy.Verdict{{Rule: "p/seen", Observe: true}, {Rule: "p/perhaps", Unknown: []string{"size"}},
		{Rule: "p/surely"}}, got)
	got, err = trial.Judge(facts(), nil)
	require.NoError(t, err)
	require.Equal(t, []policy.Verdict{{Rule: "p/seen", Observe: true}, {Rule: "p/perhaps"}}, got)
}

func TestATrialSaysWhichModelIsChosen(t *testing.T) {
	trial, err := policy.NewTrial([]*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{
		{Name: "perhaps", When: "size > 1", UseModel: "a"}, {Name: "surely", When: "stream", UseModel: "b"},
		{Name: "late", When: "true", UseModel: "c"}, {Name: "no", Deny: "true"}}}}, piece)
	require.NoError(t, err)
	got, err := trial.Judge(facts(), []string{"size"})
	require.NoError(t, err)
	require.Equal(t, []policy.Verdict{{Rule: "p/perhaps", Model: "a", Unknown: []string{"size"}}, {Rule: "p/surely",
		Model: "b"},
		{Rule: "p/no"}}, got)
}

func piece() error { return nil }
