package configv1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAcmeIsAKind(t *testing.T) {
	k, ok := configv1.FindKind("acmes")
	require.True(t, ok)
	require.Equal(t, "Acme", configv1.Kinds()[len(configv1.Kinds())-1].Name, "it is at its place in lists")
	s := compiled(t, k)
	const good = "kind: Acme\nname: a\ntons: 9\ncargo: anvils\n"
	require.NoError(t, judge(t, s, good))
	require.Error(t, judge(t, s, good+"lid: true\n"))
	for text, problem := range map[string]string{
		good:                                  "",
		"kind: Acme\n":                        "name: must be",
		"kind: Acme\nname: a\ntons: 1\n":      "tons: needs a cargo",
		"kind: Acme\nname: a\nlid: true\n":    "lid: unknown field",
		"kind: Acme\nname: a\ntons: anvils\n": "tons: must be",
	} {
		docs, err := configv1.ParseYAML("f", []byte(text))
		if err == nil && len(docs[0].Validate(knownVendor)) > 0 {
			err = docs[0].Validate(knownVendor)
		}
		if problem == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, problem)
	}
}
