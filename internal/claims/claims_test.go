package claims_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/claims"
)

func TestAClaimOfAnotherTypeIsAnErrorAndNotAbsent(t *testing.T) {
	var c claims.Claims
	require.NoError(t, json.Unmarshal([]byte(`{"s":"a","n":7,"b":true,"null":null,"l":["a","b"],"mixed":["a",1],"deep":[["a"]],
		"o":{"l":["x"],"s":"y","in":{"s":"z"},"d.e":{"f.g":"deep"}},
		"kubernetes.io":{"namespace":"team-a","serviceaccount":{"name":"bot"}},
		"a.b":"dotted","empty":[],"float":1.9,"minus":-1,"huge":1e300,
		"text":"1700000000"}`),
		&c))
	for name, want := range map[string]string{"s": "a", "none": "", "null": "", "o.s": "y",
		"o.in.s": "z", "a.b": "dotted",
		"kubernetes.io.namespace": "team-a", "kubernetes.io.serviceaccount.name": "bot", "kubernetes.io.pod.name": "",
		"kubernetes.namespace": "", "o.d.e.f.g": "deep", "o.d.e.f": "", "": "", "o.": "", ".s": "",
		"o.none": "", "none.s": "", "null.s": ""} {
		got, err := c.Text(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for name, want := range map[string][]string{"s": {"a"}, "l": {"a", "b"}, "o.l": {"x"}, "none": nil, "null": nil,
		"empty": {}, "null.x": nil} {
		got, err := c.Texts(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"n", "b", "l", "o", "empty", "s.x", "l.0", "o.s.x", "kubernetes.io",
		"kubernetes.io.namespace.x"} {
		_, err := c.Text(name)
		require.Error(t, err, name)
	}
	for _, name := range []string{"n", "b", "mixed", "deep", "o", "s.x"} {
		_, err := c.Texts(name)
		require.Error(t, err, name)
	}
	for name, want := range map[string]int64{"n": 7, "float": 1} {
		got, ok, err := c.Time(name)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, got.Unix())
	}
	_, ok, err := c.Time("none")
	require.NoError(t, err)
	require.False(t, ok)
	for _, name := range []string{"text", "s", "b", "null", "l", "o", "minus", "huge", "s.x"} {
		_, _, err := c.Time(name)
		require.ErrorContains(t, err, "is not a number of seconds", name)
	}
}
