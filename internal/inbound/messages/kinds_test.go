package messages

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

func TestEveryTypeOfBlock(t *testing.T) {
	for i, where := range []struct {
		table         kinds.Table
		before, after string
		lacks         []string
	}{
		{kinds.Blocks, `"messages":[{"role":"assistant","content":[`, `]},{"role":"user","content":"x"}]`,
			[]string{"document", "search_result", "tool_result", "tool_addition", "tool_removal"}},
		{kinds.Blocks, `"messages":[{"role":"user","content":[`, `]}]`, []string{"thinking", "redacted_thinking", "tool_use"}},
		{kinds.ResultBlocks, `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[`, `]}]}]`, nil},
		{kinds.SystemBlocks, `"system":[`, `],"messages":[{"role":"user","content":"x"}]`, nil},
		{kinds.SystemBlocks, `"messages":[{"role":"user","content":"x"},{"role":"system","content":[`, `]}]`, nil},
	} {
		for typ, kind := range where.table {
			if i == 0 && kinds.AssistantBlocks[typ].Decision != "" {
				kind = kinds.AssistantBlocks[typ]
			}
			block := `{"type":"` + typ + `","text":"t","id":"c","name":"f","tool_use_id":"c","tool_name":"f","tool":{"type":"tool_reference","name":"f"},"tabs":[],"source":{"type":"url","url":"https://i"},"content":[]}`
			_, sent, err := translated(t, where.before+block+where.after, false)
			lacks := false
			for _, l := range where.lacks {
				lacks = lacks || l == typ
			}
			switch {
			case lacks || kind.Decision == kinds.Refused:
				require.Error(t, err, typ)
			case kind.Decision == kinds.Dropped || typ == "compaction":
				require.NoError(t, err, typ)
				require.Len(t, sent.Dropped, 1, typ)
			default:
				require.NoError(t, err, typ)
				require.Empty(t, sent.Dropped, typ)
			}
		}
	}
}

func TestEveryTypeOfTool(t *testing.T) {
	const ask = `"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}},`
	for typ, kind := range kinds.MessageTools {
		for _, date := range []string{"_20250728", "_20300101"} {
			if typ == "custom" || typ == "mcp_toolset" {
				date = ""
			}
			body, sent, err := translated(t, ask+`{"type":"`+typ+date+`","name":"own","input_schema":{"type":"object"}}]`, false)
			if kind.Decision == kinds.Refused {
				require.ErrorContains(t, err, kind.Note, typ)
				continue
			}
			require.NoError(t, err, typ)
			names := gjson.Get(body, "tools.#.function.name").Raw
			switch {
			case kind.Decision == kinds.Dropped:
				require.Equal(t, []string{"tools.1"}, sent.Dropped, typ)
				require.Equal(t, `["f"]`, names, typ)
			case typ == "web_search": // codecs have one, or leave it out
				require.Equal(t, typ+date, gjson.Get(body, "tools.1.type").Str)
			default:
				require.Empty(t, sent.Dropped, typ)
				require.Equal(t, `["f","own"]`, names, typ)
				require.True(t, gjson.Get(body, "tools.1.function.parameters.properties").IsObject() || typ == "custom", typ)
			}
		}
	}
}

func TestASearchCannotBeChosenLikeAFunction(t *testing.T) {
	body, sent, err := translated(t, hi+`,"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"}`, false)
	require.NoError(t, err)
	require.NotContains(t, body, "tool_choice")
	require.Equal(t, []string{"tool_choice"}, sent.Dropped)
}

func TestWhatOnlyAnthropicHas(t *testing.T) {
	const head = `{"model":"m","max_tokens":9,"messages":[`
	for name, c := range map[string]struct{ members, want string }{
		"a summary is all that the model knows": {`"messages":[{"role":"user","content":"old"},{"role":"assistant","content":[{"type":"text","text":"old"},{"type":"compaction","content":"Ada wants a parser."},{"type":"text","text":"On it."}]},{"role":"user","content":"Go on."}]`,
			head + `{"role":"user","content":"Summary of the conversation so far:\n\nAda wants a parser."},{"role":"assistant","content":"On it."},{"role":"user","content":"Go on."}]}`},
		"the last summary counts": {`"messages":[{"role":"assistant","content":[{"type":"compaction","content":"one"}]},{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"compaction","content":"two"}]},{"role":"user","content":"Go on."}]`,
			head + `{"role":"user","content":"Summary of the conversation so far:\n\ntwo"},{"role":"user","content":"Go on."}]}`},
		"a reference to a tool": {`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Search","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"tool_reference","tool_name":"WebFetch"}]}]}]`,
			head + `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"Search","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"The tool WebFetch is loaded and can be used."}]}]}`},
		"a tool that a message defines": {`"messages":[{"role":"user","content":"x"},{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"f","input_schema":{"type":"object"}}}}]}]`,
			head + `{"role":"user","content":"x"},{"role":"system","content":[{"type":"text","text":"The tool f can be used now."}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`},
		"a system message that was for one turn": {`"messages":[{"role":"user","content":"x"},{"role":"system","content":"once","clear_at":"next_user_message"},{"role":"assistant","content":"y"},{"role":"user","content":"z"},{"role":"system","content":"now","clear_at":"next_user_message"}]`,
			head + `{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z"},{"role":"system","content":"now"}]}`},
		"a line about billing": {`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=36ee5;"},{"type":"text","text":"You are an agent."}],"messages":[{"role":"user","content":"x"}]`,
			head + `{"role":"system","content":"You are an agent."},{"role":"user","content":"x"}]}`},
		"a line about billing in a text": {`"system":"x-anthropic-billing-header: cc_version=2; cch=36ee5;\n\nYou are an agent.","messages":[{"role":"user","content":"x"}]`,
			head + `{"role":"system","content":"You are an agent."},{"role":"user","content":"x"}]}`},
		"nothing but a line about billing": {`"system":"x-anthropic-billing-header: cch=36ee5;","messages":[{"role":"user","content":"x"}]`,
			head + `{"role":"user","content":"x"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, sent, err := translated(t, c.members, false)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Empty(t, sent.Dropped)
		})
	}
}
