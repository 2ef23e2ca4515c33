package turns

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider/forms"
)

func TestPitfall51NamesAreRenamedAndNamedBack(t *testing.T) {
	long := strings.Repeat("n", 65)
	given := []string{"plain", "with-dash_1", "a.b", "a b", "größe", "", long, long + "x", "9lives", "-x", "_9lives",
		strings.Repeat("7", 64)}
	for _, letter := range []bool{false, true} {
		n := Names{Form: forms.Form{Chars: forms.Identifier, Min: 1, Max: 64, Letter: letter}}
		sent := map[string]bool{}
		for _, name := range given {
			s := n.Use(name)
			require.True(t, n.Form.Takes(s), "%q became %q", name, s)
			require.False(t, letter && (s[0] == '-' || s[0] >= '0' && s[0] <= '9'), "%q became %q", name, s)
			require.False(t, sent[s], "%q became %q, which another is already", name, s)
			sent[s] = true
			require.Equal(t, name, n.Client(s))
			require.Equal(t, s, n.Use(name), "the same each time")
		}
		require.Len(t, n.Used(), len(given))
		require.Equal(t, "with-dash_1", n.Sent("with-dash_1"))
		require.Equal(t, "unknown", n.Client("unknown"))
	}
	require.Equal(t, "x", (*Names)(nil).Client("x"))
}

func TestArguments(t *testing.T) {
	for given, want := range map[string]string{
		"":                         `{}`,
		" \n":                      `{}`,
		`{"z": 1.0,"a":"<&>"}`:     `{"z": 1.0,"a":"<&>"}`,
		`{"x":`:                    `{"_raw":"{\"x\":"}`,
		`[1]`:                      `{"_raw":"[1]"}`,
		`null`:                     `{"_raw":"null"}`,
		"\xff":                     `{"_raw":"` + "\ufffd" + `"}`,
		`{"a":1} and then {"b":2}`: `{"_raw":"{\"a\":1} and then {\"b\":2}"}`,
	} {
		require.Equal(t, want, string(Arguments(given)), "%q", given)
	}
}

func TestAsked(t *testing.T) {
	for given, want := range map[string]bool{
		"": false, "null": false, "{}": false, "[ ]": false, `""`: false, `" "`: false, "{": false, `"`: false,
		"0": true, "false": true, `{"a":1}`: true, "[{}]": true, `"x"`: true,
	} {
		require.Equal(t, want, Asked(jsontext.Value(given)), "%q", given)
	}
}

func BenchmarkBuild(b *testing.B) {
	list := messages(b, say("system", "s")+`,`+say("user", strings.Repeat("x ", 500))+`,`+callOf("1", "2")+`,`+
		result("1", "r")+`,`+result("2", "r"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(list, Options{ID: ID}); err != nil {
			b.Fatal(err)
		}
	}
}
