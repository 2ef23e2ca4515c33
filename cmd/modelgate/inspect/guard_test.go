package inspect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

func TestGuardTest(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	rails := file("g.yaml", "kind: Guardrail\nname: g\nrules:\n- {name: mail, mode: MASK, data: [EMAIL]}\n- {name: x, mode: BLOCK, words: [secret]}\n")
	run := func(examples string) (string, error) {
		c := guardTestCmd{Filename: []string{rails}, Examples: file("e.jsonl", examples)}
		var out console.Text
		err := c.Run(&out)
		return out.String(), err
	}
	out, err := run(`{"text":"a@b.example","finds":["g/mail"]}` + "\n\n" + `{"text":"The SECRET","finds":["g/x"]}` + "\n" + `{"text":"none"}`)
	require.NoError(t, err)
	require.Regexp(t, `g/mail +1 +0 +0 +100\.0 % +100\.0 % +-`, out)

	out, err = run(`{"text":"a@b.example c@d.example","finds":["g/x"]}`)
	require.ErrorIs(t, err, errGuard)
	require.Regexp(t, `g/mail +0 +0 +1 +0\.0 % +- +\[1\]`, out)
	require.Regexp(t, `g/x +0 +1 +0 +- +0\.0 % +\[1\]`, out)
	require.NotContains(t, out, "a@b", "no text of an example is printed")

	rails = file("t.yaml", "kind: Guardrail\nname: g\nrules:\n- {name: t, mode: BLOCK, allowed_tools: [\"get_*\"]}\n")
	out, err = run(`{"request":{"tools":[{"name":"get_x","functionDeclarations":[{"name":"drop"}]}]},"finds":["g/t"]}` + "\n" +
		`{"request":{"tools":[{"name":"get_x"}]}}`)
	require.NoError(t, err)
	require.Regexp(t, `g/t +1 +0 +0`, out)

	for examples, says := range map[string]string{
		`{"request":{"a":1,"a":2}}`: "line 1 of the examples", `{"request":{},"text":"a"}`: "line 1 of the examples",
		``: "no examples", `{"finds":[]}`: "line 1 of the examples must be",
		`{"text":"a","find":[]}`: "line 1 of the examples",
		`{"text":"a"}` + "\nx":   "line 2 of the examples", `{"text":"a","finds":["g/mial"]}`: "there is no rule g/mial",
	} {
		_, err := run(examples)
		require.ErrorContains(t, err, says, examples)
	}
}
