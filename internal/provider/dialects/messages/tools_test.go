package messages

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

func TestPitfall49ToolsAreSynthesisedForCallsInTheHistory(t *testing.T) {
	const history = `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` + callA1 + `,` +
		callA2 + `]}]`
	testRules(t, []rule{
		{name: "each once", members: history, path: "tools", want: `[{"name":"a","input_schema":{"type":"object"}}]`},
		{name: "and none may be used", members: history, path: "tool_choice", want: `{"type":"none"}`},
		{name: "but the one that gives a structured answer", model: budgeted, members: history +
			`,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`,
			path: "tool_choice", want: `{"type":"tool","name":"give_answer","disable_parallel_tool_use":true}`},
	})
}

func TestPitfall50ToolChoice(t *testing.T) {
	const tools = `"tools":[` + toolA + `,` + toolB + `]`
	testRules(t, []rule{
		{name: "none given", members: tools, path: "tool_choice"},
		{name: "auto", members: tools + `,"tool_choice":"auto"`, path: "tool_choice", want: `{"type":"auto"}`},
		{name: "none", members: tools + `,"tool_choice":"none","parallel_tool_calls":false`, path: "tool_choice",
			want: `{"type":"none"}`},
		{name: "required", members: tools + `,"tool_choice":"required"`, path: "tool_choice", want: `{"type":"any"}`},
		{name: "named", members: tools + `,"tool_choice":{"type":"function","function":{"name":"b"}}`, path: "tool_choice",
			want: `{"type":"tool","name":"b"}`},
		{name: "one at a time", members: tools + `,"parallel_tool_calls":false`, path: "tool_choice",
			want: `{"type":"auto","disable_parallel_tool_use":true}`},
		{name: "allowed tools narrow the tools", members: tools +
			`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"b"}}]}}`, path: "tools.#.name", want: `["b"]`},
		{name: "allowed tools have a mode", members: tools +
			`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"b"}}]}}`, path: "tool_choice", want: `{"type":"any"}`},
		{name: "none without tools asks for nothing", members: `"tool_choice":"none"`, path: "tool_choice"},
	})
	for name, members := range map[string]string{
		"required without tools":         `"tool_choice":"required"`,
		"a named tool that is not there": tools + `,"tool_choice":{"type":"function","function":{"name":"c"}}`,
		"allowed tools that are not there": tools +
			`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"c"}}]}}`,
		"a custom tool": tools + `,"tool_choice":{"type":"custom","custom":{"name":"a"}}`,
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

func TestPitfall51NamesAreRenamedAndNamedBack(t *testing.T) {
	_, _, answer, err := encode(t, middle,
		`"tools":[{"type":"function","function":{"name":"a.b"}},{"type":"function","function":{"name":"c"}}]`, false)
	require.NoError(t, err)
	require.Equal(t, "a.b", answer.names.Client(turns.Identifier("a.b")))
	require.Equal(t, "c", answer.names.Client("c"))
}

func TestPitfall63OtherToolTypes(t *testing.T) {
	const own = `{"type":"web_search_20250305","name":"web_search","max_uses":2}`
	testRules(t, []rule{
		{name: "the vendor's own pass as they are", members: `"tools":[` + toolA + `,` + own + `]`, path: "tools.1",
			want: own},
		{name: "and alone",
			members: `"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}],"mcp_servers":[{"type":"url","name":"x","url":"https://e.example/"}]`, path: "tools", want: `[{"type":"mcp_toolset","mcp_server_name":"x"}]`},
		{name: "with the members that belong to them",
			members: `"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}],"mcp_servers":[{"type":"url","name":"x","url":"https://e.example/"}]`, path: "mcp_servers.0.name", want: `"x"`},
	})
	for _, typ := range []string{"custom", "file_search", "web_searches", "google_search", "20250305", "_20250305"} {
		_, _, _, err := encode(t, middle, `"tools":[`+toolA+`,{"type":"`+typ+`","custom":{"name":"c"}}]`, false)
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, typ)
		require.Equal(t, "unsupported_value", string(e.Code))
		require.Equal(t, "tools[1].type", e.Param)
		_, out, _, err := encode(t, middle, `"tools":[`+toolA+`,{"type":"`+typ+`","custom":{"name":"c"}}]`, true)
		require.NoError(t, err)
		require.Equal(t, []string{"tools[1]"}, out.Dropped)
	}
}

func TestWebSearch(t *testing.T) {
	testRules(t, []rule{
		{name: "nothing said", members: `"web_search_options":{}`, path: "tools",
			want: `[{"type":"web_search_20250305","name":"web_search"}]`},
		{name: "not asked for", members: `"web_search_options":null`, path: "tools"},
		{name: "how much and where",
			members: `"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"country":"GB","city":"London","region":null}}}`, path: "tools.0", want: `{"type":"web_search_20250305","name":"web_search","max_uses":1,"user_location":{"type":"approximate","country":"GB","city":"London"}}`},
		{name: "beside the client's tools", members: `"web_search_options":{},"tools":[` + toolA + `],"tool_choice":"auto"`,
			path: "tools.#.name", want: `["a","web_search"]`},
		{name: "in a conversation with calls",
			members: `"web_search_options":{},"messages":[{"role":"assistant","tool_calls":[` + callA1 + `]}]`,
			path:    "tools.#.name", want: `["a","web_search"]`},
	})
	testRules(t, []rule{
		{name: "report 8: OpenAI's tool", members: `"tools":[{"type":"web_search"}]`, path: "tools",
			want: `[{"type":"web_search_20250305","name":"web_search"}]`},
		{name: "report 8: OpenAI's tool of a date", members: `"tools":[{"type":"web_search_2025_08_26"}]`,
			path: "tools.0.type", want: `"web_search_20250305"`},
		{name: "report 8: what it says", members: `"tools":[` + toolA +
			`,{"type":"web_search_preview","search_context_size":"high","user_location":{"type":"approximate","country":"GB"},"filters":{"allowed_domains":["a.example"]},"external_web_access":true}]`, path: "tools.1",
			want: `{"type":"web_search_20250305","name":"web_search","max_uses":10,"user_location":{"type":"approximate","country":"GB"},"allowed_domains":["a.example"]}`, dropped: []string{"tools[1].external_web_access"}},
		{name: "report 8: both ways at once are one search",
			members: `"tools":[{"type":"web_search"}],"web_search_options":{"search_context_size":"low"}`,
			path:    "tools.#.max_uses", want: `[1]`},
	})
	_, _, _, err := encode(t, oldest, `"tools":[{"type":"web_search"}]`, false)
	require.ErrorContains(t, err, "Tools of type 'web_search' are not supported", "a model that does not search")
	_, _, _, err = encode(t, middle,
		`"web_search_options":{},"tools":[{"type":"function","function":{"name":"web_search"}}]`, true)
	require.ErrorContains(t, err, "Give your own tool another name")
}

func TestToolSchemas(t *testing.T) {
	fn := func(members string) string {
		return `"tools":[{"type":"function","function":{"name":"a",` + members + `}}]`
	}
	testRules(t, []rule{
		{name: "no parameters", members: fn(`"description":"d"`), path: "tools.0",
			want: `{"name":"a","description":"d","input_schema":{"type":"object","properties":{}}}`},
		{name: "the client's order is kept",
			members: fn(
				`"parameters":{"type":"object","properties":{"z":{"const":1e2},"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}`),
			path: "tools.0.input_schema",
			want: `{"type":"object","properties":{"z":{"const":1e2},"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}`},
		{name: "a root without a type is an object", members: fn(`"parameters":{"properties":{"a":{}}}`),
			path: "tools.0.input_schema", want: `{"type":"object","properties":{"a":{}}}`},
		{name: "what the root may not hold is told instead",
			members: fn(`"parameters":{"type":"object","anyOf":[{"required":["a"]}]}`), path: "tools.0",
			want: `{"name":"a","description":"\n\nThe arguments must also match this JSON Schema: {\"anyOf\":[{\"required\":[\"a\"]}]}","input_schema":{"type":"object"}}`},
		{name: "strict closes objects",
			members: fn(`"strict":true,"parameters":{"type":"object","properties":{"a":{"type":"integer","minimum":3}}}`),
			path:    "tools.0",
			want:    `{"name":"a","input_schema":{"type":"object","properties":{"a":{"type":"integer","description":"{\"minimum\":3}"}},"additionalProperties":false},"strict":true}`},
		{name: "strict that the model lacks", model: budgeted, members: fn(`"strict":true,"parameters":{"type":"object"}`),
			path: "tools.0", want: `{"name":"a","input_schema":{"type":"object"}}`,
			dropped: []string{"tools[0].function.strict"}},
		{name: "strict with arbitrary members",
			members: fn(`"strict":true,"parameters":{"type":"object","additionalProperties":true}`), path: "tools.0.strict",
			dropped: []string{"tools[0].function.strict"}},
	})
	var tools []string
	for i := range 22 {
		tools = append(tools,
			fmt.Sprintf(
				`{"type":"function","function":{"name":"t%d","strict":true,"parameters":{"type":"object","properties":{}}}}`, i))
	}
	got, out, _, err := encode(t, middle, `"tools":[`+strings.Join(tools, ",")+`]`, false)
	require.NoError(t, err)
	require.Len(t, got.Get("tools.#(strict==true)#").Array(), 20)
	require.Equal(t, []string{"tools[20].function.strict", "tools[21].function.strict"}, out.Dropped)
}

func TestStructuredOutput(t *testing.T) {
	format := func(schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":` + schema +
			`}}`
	}
	const object = `{"type":"object","properties":{"a":{"type":"string"}}}`
	testRules(t, []rule{
		{name: "text asks for nothing", members: `"response_format":{"type":"text"}`, path: "system"},
		{name: "native", members: format(object), path: "output_config.format.schema.additionalProperties", want: `false`},
		{name: "native and an effort", model: adaptive, members: format(object) + `,"reasoning_effort":"high"`,
			path: "output_config.effort", want: `"high"`},
		{name: "a hidden tool is forced", model: budgeted, members: format(object), path: "tool_choice",
			want: `{"type":"tool","name":"give_answer","disable_parallel_tool_use":true}`},
		{name: "its name is not one of the client's", model: budgeted, members: format(object) +
			`,"tools":[{"type":"function","function":{"name":"give_answer"}}]`, path: "tools.#.name",
			want: `["give_answer","give_answer_"]`},
		{name: "the client's own choice of a tool stands", model: budgeted, members: format(object) + `,"tools":[` + toolA +
			`],"tool_choice":{"type":"function","function":{"name":"a"}}`, path: "tools.#.name", want: `["a"]`},
		{name: "a root that is no object is told", model: budgeted, members: format(`{"type":"array"}`),
			path: "system.0.text",
			want: `"Respond only with JSON that matches this JSON Schema, and nothing else: {\"type\":\"array\"}"`},
		{name: "a model that cannot be forced is told", model: always,
			members: format(`{"type":"object","additionalProperties":true}`), path: "tools"},
		{name: "a hidden tool rules out thinking by budget", model: budgeted, members: format(object) +
			`,"reasoning_effort":"high"`, path: "thinking", dropped: []string{"reasoning_effort"}},
		{name: "a schema of nothing", members: `"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`,
			path: "system.0.text", want: `"Respond only with a valid JSON object."`},
	})
}
