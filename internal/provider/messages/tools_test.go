package messages

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestPitfall49ToolsAreSynthesisedForCallsInTheHistory(t *testing.T) {
	const history = `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` + callA1 + `,` + callA2 + `]}]`
	testRules(t, []rule{
		{name: "each once", members: history, path: "tools", want: `[{"name":"a","input_schema":{"type":"object"}}]`},
		{name: "and none may be used", members: history, path: "tool_choice", want: `{"type":"none"}`},
		{name: "but the one that gives a structured answer", model: budgeted, members: history + `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`, path: "tool_choice", want: `{"type":"tool","name":"give_answer","disable_parallel_tool_use":true}`},
	})
}

func TestPitfall50ToolChoice(t *testing.T) {
	const tools = `"tools":[` + toolA + `,` + toolB + `]`
	testRules(t, []rule{
		{name: "none given", members: tools, path: "tool_choice"},
		{name: "auto", members: tools + `,"tool_choice":"auto"`, path: "tool_choice", want: `{"type":"auto"}`},
		{name: "none", members: tools + `,"tool_choice":"none","parallel_tool_calls":false`, path: "tool_choice", want: `{"type":"none"}`},
		{name: "required", members: tools + `,"tool_choice":"required"`, path: "tool_choice", want: `{"type":"any"}`},
		{name: "named", members: tools + `,"tool_choice":{"type":"function","function":{"name":"b"}}`, path: "tool_choice", want: `{"type":"tool","name":"b"}`},
		{name: "one at a time", members: tools + `,"parallel_tool_calls":false`, path: "tool_choice", want: `{"type":"auto","disable_parallel_tool_use":true}`},
		{name: "allowed tools narrow the tools", members: tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"b"}}]}}`, path: "tools.#.name", want: `["b"]`},
		{name: "allowed tools have a mode", members: tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"b"}}]}}`, path: "tool_choice", want: `{"type":"any"}`},
		{name: "none without tools asks for nothing", members: `"tool_choice":"none"`, path: "tool_choice"},
	})
	for name, members := range map[string]string{
		"required without tools":           `"tool_choice":"required"`,
		"a named tool that is not there":   tools + `,"tool_choice":{"type":"function","function":{"name":"c"}}`,
		"allowed tools that are not there": tools + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"c"}}]}}`,
		"a custom tool":                    tools + `,"tool_choice":{"type":"custom","custom":{"name":"a"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := encode(t, middle, members, false)
			e, ok := errors.AsType[*openai.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, 400, e.Status)
			require.Equal(t, "tool_choice", e.Param)
		})
	}
	t.Run("a model that cannot be forced", func(t *testing.T) {
		_, _, _, err := encode(t, always, tools+`,"tool_choice":"required"`, false)
		require.ErrorContains(t, err, "'tool_choice' is not supported")
		got, out, _, err := encode(t, always, tools+`,"tool_choice":"required"`, true)
		require.NoError(t, err)
		require.Equal(t, `{"type":"auto"}`, got.Get("tool_choice").Raw)
		require.Equal(t, []string{"tool_choice"}, out.Dropped)
	})
}

func TestPitfall51NamesAreValidDistinctAndReversible(t *testing.T) {
	long := strings.Repeat("x", 80)
	seen := map[string]string{}
	for _, name := range []string{"a", "a.b", "a/b", "a_b", "", "żółć", long, long + "1", strings.Repeat("x", 64)} {
		sent := identifier(name)
		require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, sent)
		require.Equal(t, sent, identifier(name))
		require.Empty(t, seen[sent], "%q and %q are sent as the same", seen[sent], name)
		seen[sent] = name + "."
	}
	require.Equal(t, "a-_9", identifier("a-_9"))
	_, _, answer, err := encode(t, middle, `"tools":[{"type":"function","function":{"name":"a.b"}},{"type":"function","function":{"name":"c"}}]`, false)
	require.NoError(t, err)
	require.Equal(t, "a.b", answer.clientName(identifier("a.b")))
	require.Equal(t, "c", answer.clientName("c"))
}

func TestPitfall63OtherToolTypesAreRefused(t *testing.T) {
	_, _, _, err := encode(t, middle, `"tools":[`+toolA+`,{"type":"web_search_20250305","name":"web_search"}]`, false)
	e, ok := errors.AsType[*openai.Error](err)
	require.True(t, ok)
	require.Equal(t, "unsupported_value", e.Code)
	require.Equal(t, "tools[1].type", e.Param)
}

func TestToolSchemas(t *testing.T) {
	fn := func(members string) string {
		return `"tools":[{"type":"function","function":{"name":"a",` + members + `}}]`
	}
	testRules(t, []rule{
		{name: "no parameters", members: fn(`"description":"d"`), path: "tools.0", want: `{"name":"a","description":"d","input_schema":{"type":"object","properties":{}}}`},
		{name: "the client's order is kept", members: fn(`"parameters":{"type":"object","properties":{"z":{"const":1e2},"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}`), path: "tools.0.input_schema", want: `{"type":"object","properties":{"z":{"const":1e2},"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}`},
		{name: "a root without a type is an object", members: fn(`"parameters":{"properties":{"a":{}}}`), path: "tools.0.input_schema", want: `{"type":"object","properties":{"a":{}}}`},
		{name: "what the root may not hold is told instead", members: fn(`"parameters":{"type":"object","anyOf":[{"required":["a"]}]}`), path: "tools.0", want: `{"name":"a","description":"\n\nThe arguments must also match this JSON Schema: {\"anyOf\":[{\"required\":[\"a\"]}]}","input_schema":{"type":"object"}}`},
		{name: "strict closes objects", members: fn(`"strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer","minimum":3}}}`), path: "tools.0", want: `{"name":"a","input_schema":{"type":"object","properties":{"a":{"type":"integer","description":"{\"minimum\":3}"}},"additionalProperties":false},"strict":true}`},
		{name: "strict that the model lacks", model: budgeted, members: fn(`"strict":true,"parameters":{"type":"object"}`), path: "tools.0", want: `{"name":"a","input_schema":{"type":"object"}}`, dropped: []string{"tools[0].function.strict"}},
		{name: "strict with arbitrary members", members: fn(`"strict":true,"parameters":{"type":"object","additionalProperties":true}`), path: "tools.0.strict", dropped: []string{"tools[0].function.strict"}},
	})
	var tools []string
	for i := range 22 {
		tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"t%d","strict":true,"parameters":{"type":"object"}}}`, i))
	}
	got, out, _, err := encode(t, middle, `"tools":[`+strings.Join(tools, ",")+`]`, false)
	require.NoError(t, err)
	require.Len(t, got.Get("tools.#(strict==true)#").Array(), 20)
	require.Equal(t, []string{"tools[20].function.strict", "tools[21].function.strict"}, out.Dropped)
}

func TestNarrowSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object"}`: `{"type":"object","additionalProperties":false}`,
		`{"$schema":"x","type":"object","additionalProperties":false,"required":["a"]}`:                                                                 `{"type":"object","required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":["object","null"],"properties":{}}}}`:                                                               `{"type":"object","properties":{"a":{"type":["object","null"],"properties":{},"additionalProperties":false}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":"array","minItems":1,"maxItems":9,"items":{"type":"string","format":"date","pattern":"x"}}}}`:       `{"type":"object","properties":{"a":{"type":"array","minItems":1,"items":{"type":"string","format":"date","description":"{\"pattern\":\"x\"}"},"description":"{\"maxItems\":9}"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"d","maxLength":3}},"$defs":{"x":{"oneOf":[{"type":"null"},{"$ref":"#"}]}}}`: `{"type":"object","properties":{"a":{"type":"string","description":"d\n\n{\"maxLength\":3}"}},"$defs":{"x":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},"additionalProperties":false}`,
		`{"type":"array"}`:              ``,
		`{"anyOf":[{"type":"object"}]}`: ``,
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{}}}}`:          ``,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"object","patternProperties":{}}]}}}`: ``,
	} {
		got, ok := narrowSchema([]byte(in))
		require.Equal(t, want != "", ok, in)
		require.Equal(t, want, string(got))
	}
}

func TestSchemasBeyondMeasureAreNotNarrowed(t *testing.T) {
	nested := `{"type":"object"}`
	for range 40 {
		nested = `{"type":"object","properties":{"a":` + nested + `}}`
	}
	_, ok := narrowSchema([]byte(nested))
	require.False(t, ok, "too deep")
	_, ok = narrowSchema([]byte(`{"type":"object","title":"` + strings.Repeat("x", maxSchema) + `"}`))
	require.False(t, ok, "too long")
}

func TestStructuredOutput(t *testing.T) {
	format := func(schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":` + schema + `}}`
	}
	const object = `{"type":"object","properties":{"a":{"type":"string"}}}`
	testRules(t, []rule{
		{name: "text asks for nothing", members: `"response_format":{"type":"text"}`, path: "system"},
		{name: "native", members: format(object), path: "output_config.format.schema.additionalProperties", want: `false`},
		{name: "native and an effort", model: adaptive, members: format(object) + `,"reasoning_effort":"high"`, path: "output_config.effort", want: `"high"`},
		{name: "a hidden tool is forced", model: budgeted, members: format(object), path: "tool_choice", want: `{"type":"tool","name":"give_answer","disable_parallel_tool_use":true}`},
		{name: "its name is not one of the client's", model: budgeted, members: format(object) + `,"tools":[{"type":"function","function":{"name":"give_answer"}}]`, path: "tools.#.name", want: `["give_answer","give_answer_"]`},
		{name: "the client's own choice of a tool stands", model: budgeted, members: format(object) + `,"tools":[` + toolA + `],"tool_choice":{"type":"function","function":{"name":"a"}}`, path: "tools.#.name", want: `["a"]`},
		{name: "a root that is no object is told", model: budgeted, members: format(`{"type":"array"}`), path: "system.0.text", want: `"Respond only with JSON that matches this JSON Schema, and nothing else: {\"type\":\"array\"}"`},
		{name: "a model that cannot be forced is told", model: always, members: format(`{"type":"object","additionalProperties":true}`), path: "tools"},
		{name: "a hidden tool rules out thinking by budget", model: budgeted, members: format(object) + `,"reasoning_effort":"high"`, path: "thinking", dropped: []string{"reasoning_effort"}},
		{name: "a schema of nothing", members: `"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, path: "system.0.text", want: `"Respond only with a valid JSON object."`},
	})
}
