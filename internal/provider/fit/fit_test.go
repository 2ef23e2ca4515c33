package fit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider/schema"
)

func TestResults(t *testing.T) {
	const (
		user, notice = `{"role":"user","content":"u"}`, `{"role":"system","content":"s"}`
		one          = `{"role":"assistant","tool_calls":[{"id":"a"}]}`
		both         = `{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"}]}`
		a, b         = `{"role":"tool","tool_call_id":"a","content":"A"}`, `{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"B"}]}`
		missing      = `{"role":"tool","tool_call_id":"a","content":"The tool call was not executed."}`
	)
	for name, c := range map[string]struct{ given, want string }{
		"in order":         {user + "," + both + "," + a + "," + b + "," + user, ""},
		"in another order": {both + "," + b + "," + a, ""},
		"no calls":         {user + "," + notice, ""},
		"something between": {user + "," + one + "," + notice + "," + a + "," + user,
			user + "," + one + "," + a + "," + notice + "," + user},
		"one of two apart":        {both + "," + a + "," + user + "," + b, both + "," + a + "," + b + "," + user},
		"calls one after another": {one + `,{"role":"assistant","tool_calls":[{"id":"b"}]},` + a + "," + b, one + "," + a + `,{"role":"assistant","tool_calls":[{"id":"b"}]},` + b},
		"an id that is used again": {one + "," + a + "," + one + "," + user + "," + a,
			one + "," + a + "," + one + "," + a + "," + user},
		"a result that is missing": {one + "," + user, one + "," + missing + "," + user},
		"nothing after the call":   {user + "," + one, user + "," + one + "," + missing},
		"no call":                  {user + "," + a + "," + user, user + `,{"role":"user","content":"Tool result (a):\nA"},` + user},
		"no call for parts":        {user + "," + b, user + `,{"role":"user","content":[{"type":"text","text":"Tool result (b):"},{"type":"text","text":"B"}]}`},
		"a result twice":           {one + "," + a + "," + a, one + "," + a + `,{"role":"user","content":"Tool result (a):\nA"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Results([]byte("[" + c.given + "]"))
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, "["+c.want+"]", string(got))
			require.Nil(t, Results(got), "what is in order stays")
		})
	}
}

func TestTheRootOfASchemaIsAnObject(t *testing.T) {
	for rules, want := range map[string]string{
		schema.Moonshot: `{"type":"object"}`,
		schema.DeepSeek: `{"type":"object"}`,
		schema.OpenAI:   `{"type":"object","properties":{}}`,
	} {
		given := []byte(`[{"type":"function","function":{"name":"f","parameters":{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"null"}]}}}]`)
		got, _ := Schemas(given, schema.RulesFor(rules), 1<<20)
		f := gjson.GetBytes(got, "0.function")
		require.Equal(t, want, f.Get("parameters").Raw, rules)
		require.Contains(t, f.Get("description").Str, `"anyOf"`, rules)
	}
}
