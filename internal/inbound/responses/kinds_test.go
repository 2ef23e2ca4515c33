package responses

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

// Every type has a way through the translator that agrees with its decision.
func TestEveryTypeOfItem(t *testing.T) {
	for typ, kind := range kinds.Items {
		members := `"input":[{"role":"user","content":"hi"},{"type":"` + typ + `","id":"i","call_id":"c","role":"user","name":"f","author":"a","arguments":{},"output":"x","tools":[],"content":"y"}]`
		_, sent, err := translated(t, members)
		switch kind.Decision {
		case kinds.Refused:
			var e *openai.Error
			require.ErrorAs(t, err, &e, typ)
			require.Equal(t, "input[1]", e.Param, typ)
		case kinds.Dropped:
			require.NoError(t, err, typ)
			require.Equal(t, []string{"input[1]"}, sent.Dropped, typ)
		default:
			require.NoError(t, err, typ)
			require.Empty(t, sent.Dropped, typ)
		}
	}
}

func TestEveryTypeOfPart(t *testing.T) {
	for typ := range kinds.Parts {
		part := `{"type":"` + typ + `","text":"t","refusal":"r","image_url":"https://i","file_data":"data:x","input_audio":{"data":"d","format":"wav"}}`
		for _, item := range []string{`{"role":"user","content":[` + part + `]}`,
			`{"type":"reasoning","content":[` + part + `]}`} {
			if typ == "summary_text" || typ == "reasoning_text" {
				item = `{"type":"reasoning","summary":[` + part + `]}`
			}
			_, _, err := translated(t, `"input":[`+item+`]`)
			require.NoError(t, err, typ)
		}
	}
}

func TestItemsOfCodingAgents(t *testing.T) {
	const head, hi = `{"model":"m","messages":[{"role":"user","content":"hi"}`, `{"role":"user","content":"hi"}`
	call := func(name, arguments string) string {
		quoted, err := json.Marshal(arguments)
		require.NoError(t, err)
		return head + `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"` + name +
			`","arguments":` + string(quoted) + `}}]},{"role":"tool","tool_call_id":"c","content":`
	}
	const function = `{"type":"function","function":{"name":"wait","parameters":{"type":"object"}}}`
	for name, c := range map[string]struct{ members, want string }{
		"additional tools": {`"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"wait","parameters":{"type":"object"}}]},` + hi + `]`,
			head + `],"tools":[` + function + `]}`},
		"additional tools beside others": {`"input":[{"type":"additional_tools","tools":[{"type":"function","name":"wait","parameters":{"type":"object"}},{"type":"custom","name":"edit"}]},` + hi + `],"tools":[{"type":"function","name":"wait","parameters":{"type":"object"}}]`,
			head + `],"tools":[` + function + `,{"type":"function","function":{"name":"edit","parameters":` + customParameters + `}}]}`},
		"a message of an agent": {`"input":[` + hi + `,{"type":"agent_message","author":"/main/reviewer","recipient":"/root","content":[{"type":"input_text","text":"42"}]}]`,
			head + `,{"role":"user","content":"Message from the agent /main/reviewer to /root:\n42"}]}`},
		"a local shell": {`"input":[` + hi + `,{"type":"local_shell_call","call_id":"c","status":"completed","action":{"type":"exec","command":["ls"]}},{"type":"local_shell_call_output","call_id":"c","output":"a.txt"}]`,
			call("local_shell", `{"type":"exec","command":["ls"]}`) + `"a.txt"}]}`},
		"a shell": {`"input":[` + hi + `,{"type":"shell_call","call_id":"c","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"c","output":[{"stdout":"a.txt","stderr":"","outcome":{"type":"exit","exit_code":1}},{"stdout":"","stderr":"slow\n","outcome":{"type":"timeout"}}]}]`,
			call("shell", `{"commands":["ls"]}`) + `"a.txt\n(exit code 1)\nslow\n(timeout)\n"}]}`},
		"a patch": {`"input":[` + hi + `,{"type":"apply_patch_call","call_id":"c","status":"completed","operation":{"type":"delete_file","path":"a"}},{"type":"apply_patch_call_output","call_id":"c","status":"failed"}]`,
			call("apply_patch", `{"type":"delete_file","path":"a"}`) + `"failed"}]}`},
		"a search for tools": {`"input":[` + hi + `,{"type":"tool_search_call","call_id":"c","execution":"client","arguments":{"query":"wait"}},{"type":"tool_search_output","call_id":"c","execution":"client","tools":[{"type":"function","name":"wait","parameters":{"type":"object"}}]}]`,
			call("tool_search", `{"query":"wait"}`) + `"These tools can be used now: wait"}],"tools":[` + function + `]}`},
		"a picture of a computer": {`"input":[` + hi + `,{"type":"computer_call","call_id":"c","action":{"type":"screenshot"}},{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"https://i"}}]`,
			call("computer", `{"type":"screenshot"}`) + `""},{"role":"user","content":[{"type":"text","text":"From the result of the tool call c:"},{"type":"image_url","image_url":{"url":"https://i"}}]}]}`},
		"client tools": {`"input":"hi","tools":[{"type":"tool_search","execution":"client","description":"finds","parameters":{"type":"object"}},{"type":"namespace","name":"n","tools":[{"type":"custom","name":"edit"}]}],"tool_choice":{"type":"custom","name":"edit","namespace":"n"}`,
			head + `],"tools":[{"type":"function","function":{"name":"tool_search","description":"finds","parameters":{"type":"object"}}},{"type":"function","function":{"name":"n__edit","parameters":` + customParameters + `}}],"tool_choice":{"type":"function","function":{"name":"n__edit"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, sent, err := translated(t, c.members)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Empty(t, sent.Dropped)
		})
	}
}

// What OpenAI ran is left out in pairs.
func TestASearchThatOpenAIRan(t *testing.T) {
	got, sent, err := translated(t, `"input":[{"role":"user","content":"hi"},{"type":"tool_search_call","execution":"server","arguments":{"paths":["n"]}},{"type":"tool_search_output","execution":"server","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}],"tools":[{"type":"tool_search"}]`)
	require.NoError(t, err)
	require.Equal(t, `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"n__f"}}]}`, got)
	require.Equal(t, []string{"input[1]", "input[2]", "tools[0]"}, sent.Dropped)
}

// Calls come back as items of the type of their tool, in whole answers and in streams.
func TestCallsOfToolsThatAreNoFunctions(t *testing.T) {
	for name, c := range map[string]struct{ echo, function, arguments, want string }{
		"a custom tool of a namespace": {`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"edit"}]}]}`, "n__edit", `{"input":"x"}`,
			`{"id":"ctc_x_0","type":"custom_tool_call","status":"completed","call_id":"c","name":"edit","namespace":"n","input":"x"}`},
		"a custom tool that an item brings": {`{"input":[{"type":"additional_tools","tools":[{"type":"custom","name":"edit"}]}]}`, "edit", `{"input":"x"}`,
			`{"id":"ctc_x_0","type":"custom_tool_call","status":"completed","call_id":"c","name":"edit","input":"x"}`},
		"a function that a search has found": {`{"input":[{"type":"tool_search_output","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}]}`, "n__f", `{}`,
			`{"id":"fc_x_0","type":"function_call","status":"completed","call_id":"c","name":"f","namespace":"n","arguments":"{}"}`},
		"a local shell": {`{"tools":[{"type":"local_shell"}]}`, "local_shell", `{"command":["ls"],"timeout_ms":5}`,
			`{"id":"lsh_x_0","type":"local_shell_call","status":"completed","call_id":"c","action":{"type":"exec","env":{},"command":["ls"],"timeout_ms":5}}`},
		"a shell": {`{"tools":[{"type":"shell","environment":{"type":"local"}}]}`, "shell", `{"commands":["ls"]}`,
			`{"id":"sh_x_0","type":"shell_call","status":"completed","call_id":"c","action":{"commands":["ls"]}}`},
		"a patch": {`{"tools":[{"type":"apply_patch"}]}`, "apply_patch", `{"type":"delete_file","path":"a"}`,
			`{"id":"apc_x_0","type":"apply_patch_call","status":"completed","call_id":"c","operation":{"type":"delete_file","path":"a"}}`},
		"a search for tools": {`{"tools":[{"type":"tool_search","execution":"client"}]}`, "tool_search", `{"query":"x"}`,
			`{"id":"tsc_x_0","type":"tool_search_call","status":"completed","call_id":"c","arguments":{"query":"x"},"execution":"client"}`},
	} {
		t.Run(name, func(t *testing.T) {
			all := []chat.Event{chat.Begin("x"), chat.ToolCall(0, 0, "c", c.function), chat.Arguments(0, 0, c.arguments),
				chat.Finish(0, "tool_calls"), chat.End()}
			asked := chat.Asked{Echo: []byte(c.echo)}
			got := events(asked, all...)
			require.Equal(t, c.want, got[len(got)-1].Get("response.output.0").Raw)
			require.Equal(t, c.want, got[len(got)-2].Get("item").Raw)
			w := chat.Documents(appendAnswer)(asked)
			for _, e := range all {
				w.Put(e)
			}
			require.Equal(t, c.want, gjson.GetBytes(w.Take(), "output.0").Raw)
			back, _, err := translated(t, `"input":[`+c.want+`],"tools":[{"type":"function","name":"g"}]`)
			require.NoError(t, err, "the client can send it back")
			require.Contains(t, back, `"name":"`+c.function+`"`)
		})
	}
}
