package expression_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/config/expression"
)

func TestExpressionsThatWouldTakeLongToCompile(t *testing.T) {
	again := strings.Repeat
	for name, text := range map[string]string{
		"lists":                      again("[", 40) + "1" + again("]", 40) + " == []",
		"many lists":                 again(again("[", 20)+"1"+again("]", 20)+" == [] || ", 80) + "true",
		"maps":                       again("{1:", 20) + "1" + again("}", 20) + " == {}",
		"maps of keys":               again("{", 20) + "1" + again(":1}", 20) + " == {}",
		"types":                      again("type(", 40) + "1" + again(")", 40) + " == int",
		"brackets":                   again("(", 2000) + "true" + again(")", 2000),
		"brackets that stay open":    again("(", 4000),
		"calls":                      again("size(", 300) + "[]" + again(")", 300) + " == 1",
		"conditions":                 again("true ? true : ", 250) + "true",
		"lists in a chain of loops":  "tools" + again(".map(t, [t])", 30) + " == []",
		"maps in a chain of loops":   "[1]" + again(".map(a, {a: a})", 15) + " == []",
		"maps that double the type":  "[1]" + again(".map(a, {{a: a}: {a: a}})", 6) + " == []",
		"loops within each other":    again("tools.exists(t, ", 20) + "true" + again(")", 20),
		"lists in loops in each one": again("[1].map(a, [a, ", 12) + "1" + again("])", 12) + " == []",
		"a variable that hides":      "[[[[[[[[1]]]]]]]].map(user, [[[[[[[[[user]]]]]]]]]) == []",
		"a pattern":                  `model.matches("` + again("(a{1,1000})", 300) + `")`,
		"many patterns":              again(`model.matches("(a{1,900}b)") || `, 110) + "true",
		"a sum":                      again("1 + ", 900) + "1 == 1",
		"more than the bytes":        again("true||", 800) + "true",
		"more than the nodes":        again("tools.exists(t,t==t)||", 180) + "true",
	} {
		_, err := expression.Program(text)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "overload", name)
	}
}

func TestExpressionsAsPeopleWriteThem(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("model == 'm' || ", 250) + "true",
		strings.Repeat("(", 30) + "true" + strings.Repeat(")", 30),
		strings.Repeat("size > 1 ? true : ", 30) + "false",
		`tools.exists(a, tools.exists(b, tools.exists(c, a + b == c)))`,
		`tools.map(t, t + "x").filter(t, t.startsWith("a")).all(t, t in ["ab"])`,
		`{"a": ["x", "y"], "b": ["z"]}.exists(k, model in {"a": ["x"]}[k])`,
		`model in {"m": true, model: false} && {user: 1}[user] == 1`,
		`model in [` + strings.Repeat("'openai/gpt-5', ", 200) + `'x']`,
		`token.groups.exists(g, g.matches("^(ops|dev)-[a-z]{1,40}$"))`,
		`has(token.groups) && token["groups"].size() > 0 && type(size) == int`,
		`model.matches("^" + key.organization)`,
	} {
		_, err := expression.Program(text)
		require.NoError(t, err, "%.80s", text)
	}
}

func TestPatternsThatARequestMakes(t *testing.T) {
	program, err := expression.Program(`model.matches(user)`)
	require.NoError(t, err)
	eval := func(model, user string) (any, error) {
		out, _, err := program.Eval(map[string]any{"model": model, "user": user})
		if err != nil {
			return nil, err
		}
		return out.Value(), nil
	}
	got, err := eval("gpt-5", "^gpt-[0-9]{1,3}$")
	require.NoError(t, err)
	require.Equal(t, true, got)
	for _, user := range []string{"a{1000}", strings.Repeat("a", 1001), "(", strings.Repeat("(a{99})", 1000)} {
		_, err = eval("gpt-5", user)
		require.Error(t, err, "%.20s", user)
	}
	program, err = expression.Program(`model.matches("(")`)
	require.NoError(t, err, "it was never refused, and a stored policy must not be lost")
	_, _, err = program.Eval(map[string]any{"model": "m"})
	require.Error(t, err)
}

func TestStepsOfPatterns(t *testing.T) {
	for pattern, most := range map[string]int{`a`: 5, `abc|[0-9]+`: 10, `a{3}`: 12, `(a{10}){10}`: 400,
		`\bproject-\d{4,}`: 30} {
		n, err := expression.Steps(pattern)
		require.NoError(t, err)
		require.LessOrEqual(t, n, most, pattern)
	}
	n, err := expression.Steps(strings.Repeat("(a{1,1000})", 300))
	require.NoError(t, err)
	require.Greater(t, n, 300_000)
}
