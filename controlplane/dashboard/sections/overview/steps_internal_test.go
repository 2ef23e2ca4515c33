package overview

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/authz"
)

func TestStepsAreDoneByFacts(t *testing.T) {
	everything := func(authz.Scope) bool { return true }
	for name, tc := range map[string]struct {
		facts stepFacts
		open  string
	}{
		"nothing yet":            {stepFacts{}, "Add a provider, Test it, Create a key, Send a request, Set a budget, Set an alert"},
		"a key and echo":         {stepFacts{Key: true, Requested: true}, "Add a provider, Test it, Set a budget, Set an alert"},
		"a provider":             {stepFacts{Provider: "mine", Key: true}, "Test it, Send a request, Set a budget, Set an alert"},
		"a tested provider":      {stepFacts{Provider: "mine", Tested: true}, "Create a key, Send a request, Set a budget, Set an alert"},
		"a budget, and no alert": {stepFacts{"mine", true, true, true, true, false}, "Set an alert"},
		"an alert":               {stepFacts{Alert: true}, "Add a provider, Test it, Create a key, Send a request, Set a budget"},
		"all":                    {stepFacts{"mine", true, true, true, true, true}, ""},
	} {
		steps, done := stepsOf(tc.facts, everything)
		require.Len(t, steps, 6, name)
		var open []string
		for _, s := range steps {
			if !s.Done {
				open = append(open, s.Name)
			}
			require.False(t, s.Done && s.Path != "", "%s: nothing leads to what is done: %s", name, s.Name)
			require.Equal(t, s.Path == "", s.Link == "", s.Name)
		}
		require.Equal(t, tc.open, strings.Join(open, ", "), name)
		require.Equal(t, tc.open == "", done, name)
	}
}

func TestStepsHaveNoLinksForPeopleWhoMayNotDoThem(t *testing.T) {
	steps, _ := stepsOf(stepFacts{Provider: "mine"}, func(s authz.Scope) bool { return s == authz.KeysWrite })
	for _, s := range steps {
		require.Equal(t, s.Name == "Create a key", s.Path != "", s.Name)
	}
	steps, _ = stepsOf(stepFacts{Provider: "a b"}, func(authz.Scope) bool { return true })
	require.Equal(t, "/providers/a%20b", steps[1].Path)
}
