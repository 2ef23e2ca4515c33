package configv1

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnObjectCoversTheClientsThatItNames(t *testing.T) {
	client := Client{Key: "key_1", Organization: "acme", Project: "web"}
	for _, c := range []struct {
		key, organization, project string
		want                       bool
	}{
		{want: true},
		{organization: "acme", want: true},
		{organization: "acme", project: "web", want: true},
		{key: "key_1", want: true},
		{organization: "other"},
		{organization: "acme", project: "other"},
		{organization: "acme", project: "web", key: "key_2"},
	} {
		for _, o := range []Scoped{
			&Guardrail{Key: c.key, Organization: c.organization, Project: c.project},
			&Policy{Key: c.key, Organization: c.organization, Project: c.project},
			&ResponseCache{Key: c.key, Organization: c.organization, Project: c.project},
			&AlertRule{Key: c.key, Organization: c.organization, Project: c.project},
		} {
			require.Equal(t, c.want, Covers(o, client), "%T %+v", o, c)
			require.Equal(t, c.key == "" && c.organization == "" && c.project == "", Covers(o, Client{}), "%T %+v", o, c)
		}
		if c.key == "" { // a kind without keys
			require.Equal(t, c.want, Covers(&ApprovalRule{Organization: c.organization, Project: c.project}, client), c)
		}
	}
}

func TestAnObjectCoversTheModelsThatItNames(t *testing.T) {
	require.True(t, CoversModel(&Guardrail{}, ""))
	require.True(t, CoversModel(&ResponseCache{Models: []string{"a", "b/*"}}, "b/c"))
	require.False(t, CoversModel(&ResponseCache{Models: []string{"a", "b/*"}}, "c"))
}

func TestCoversAllocatesNothing(t *testing.T) {
	g, c := &Guardrail{Key: "k", Organization: "o", Project: "p", Models: []string{"a/*"}}, Client{"k", "o", "p"}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !Covers(g, c) || !CoversModel(g, "a/b") {
			t.Fail()
		}
	}))
}
