package messages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"

	"github.com/modelgate/modelgate/internal/chat/chattest"
)

func TestReasoningEffort(t *testing.T) {
	const signed = `"thinking_blocks":[{"signature":"s","thinking":"é < 1","type":"thinking"}],`
	history := func(extra string) string {
		return `"tools":[` + toolA +
			`],"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant",` + extra +
			`"tool_calls":[` + callA1 + `]},{"role":"tool","tool_call_id":"1","content":"r"}]`
	}
	testRules(t, []rule{
		{name: "a budget", members: `"reasoning_effort":"medium"`, path: "thinking",
			want: `{"type":"enabled","budget_tokens":10000}`},
		{name: "TestPitfall55 the budget of an effort fits into the client's limit",
			members: `"reasoning_effort":"medium","max_completion_tokens":4000`, path: "thinking.budget_tokens", want: `2976`},
		{name: "TestPitfall55 which stays", members: `"reasoning_effort":"medium","max_completion_tokens":4000`,
			path: "max_tokens", want: `4000`},
		{name: "TestPitfall55 and one that fits is as it is",
			members: `"reasoning_effort":"low","max_completion_tokens":4000`, path: "thinking.budget_tokens", want: `2048`},
		{name: "TestPitfall55 a limit without room for the least budget is raised",
			members: `"reasoning_effort":"medium","max_completion_tokens":500`, path: "max_tokens", want: `1524`},
		{name: "TestPitfall55 max_tokens stays within the model's", model: "claude-opus-4-1",
			members: `"thinking":{"type":"enabled","budget_tokens":32000},"max_completion_tokens":500`, path: "max_tokens",
			want: `32000`},
		{name: "TestPitfall55 the budget leaves room for the answer", model: "claude-opus-4-1",
			members: `"thinking":{"type":"enabled","budget_tokens":32000},"max_completion_tokens":500`,
			path:    "thinking.budget_tokens", want: `30976`},
		{name: "TestPitfall55 the client's own budget is made to fit",
			members: `"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":500`, path: "max_tokens", want: `2500`},
		{name: "the client's own parameter passes as it is", model: newest,
			members: `"thinking":{"type":"adaptive","display":"omitted","new":1}`, path: "thinking",
			want: `{"type":"adaptive","display":"omitted","new":1}`},
		{name: "the client's own parameter wins", members: `"thinking":{"type":"disabled"},"reasoning_effort":"high"`,
			path: "thinking", want: `{"type":"disabled"}`, dropped: []string{"reasoning_effort"}},
		{name: "none by budget", members: `"reasoning_effort":"none"`, path: "thinking"},
		{name: "none where there is no thinking", model: oldest, members: `"reasoning_effort":"none"`, path: "thinking"},
		{name: "none where it is adaptive", model: adaptive, members: `"reasoning_effort":"none"`, path: "thinking",
			want: `{"type":"disabled"}`},
		{name: "none where it cannot be turned off", model: always, members: `"reasoning_effort":"none"`,
			path: "output_config", want: `{"effort":"low"}`, dropped: []string{"reasoning_effort"}},
		{name: "adaptive", model: adaptive, members: `"reasoning_effort":"minimal"`, path: "thinking",
			want: `{"type":"adaptive"}`},
		{name: "adaptive that shows its text only when asked", model: newest, members: `"reasoning_effort":"low"`,
			path: "thinking", want: `{"type":"adaptive","display":"summarized"}`},
		{name: "the nearest effort", model: adaptive, members: `"reasoning_effort":"xhigh"`, path: "output_config",
			want: `{"effort":"max"}`},
		{name: "the least effort", model: adaptive, members: `"reasoning_effort":"minimal"`, path: "output_config",
			want: `{"effort":"low"}`},
		{name: "adaptive thinking and a forced tool get along", model: adaptive,
			members: `"reasoning_effort":"low","tools":[` + toolA + `],"tool_choice":"required"`, path: "thinking.type",
			want: `"adaptive"`},
		{name: "a budget and a forced tool do not", members: `"reasoning_effort":"low","tools":[` + toolA +
			`],"tool_choice":"required"`, path: "thinking", dropped: []string{"reasoning_effort"}},
		{name: "TestPitfall56 signed thinking goes back first and as it was", members: history(signed + `"content":"c",`),
			path: "messages.1.content.0", want: `{"signature":"s","thinking":"é < 1","type":"thinking"}`},
		{name: "TestPitfall56 with it thinking goes on", members: history(signed), path: "thinking.type", want: `"enabled"`},
		{name: "TestPitfall56 without it thinking by budget is off", members: history(`"reasoning_content":"unsigned",`),
			path: "thinking", dropped: []string{"messages.reasoning_content", "reasoning_effort"}},
		{name: "TestPitfall56 adaptive thinking does without it", model: adaptive, members: history(""),
			path: "thinking.type", want: `"adaptive"`},
		{name: "TestPitfall56 after an answer in words thinking by budget is on",
			members: `"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]`, path: "thinking.type", want: `"enabled"`},
		{name: "a beginning of the answer rules thinking by budget out",
			members: `"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]`,
			path:    "thinking", dropped: []string{"reasoning_effort"}},
		{name: "a model without thinking gets no blocks of it", model: oldest,
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant",` + signed +
				`"content":"y"},{"role":"user","content":"z"}]`, path: "messages.1.content.#", want: `1`},
	})
	for param, members := range map[string]string{
		"reasoning_effort": `"reasoning_effort":"enormous"`,
		"thinking":         `"thinking":true`,
	} {
		_, _, _, err := encode(t, middle, members, false)
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, param, e.Param)
	}
}

func TestPitfall56SignedThinkingThroughAStockClient(t *testing.T) {
	one, two := Thought{Text: "é < 1", Signature: "s1"}, Thought{Redacted: "r2"}
	call := func(id string, thoughts ...Thought) string {
		return `{"id":"` + CarryThoughts(carrier, id, thoughts) + `","type":"function","function":{"name":"a","arguments":"{}"}}`
	}
	history := func(assistant string) string {
		return `"tools":[` + toolA +
			`],"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant",` + assistant +
			`},{"role":"tool","tool_call_id":"` + CarryThoughts(carrier, "1", []Thought{one}) + `","content":"r"}]`
	}
	const first, second = `{"type":"thinking","thinking":"é < 1","signature":"s1"}`,
		`{"type":"redacted_thinking","data":"r2"}`
	const use1, use2 = `{"type":"tool_use","id":"1","name":"a","input":{}}`,
		`{"type":"tool_use","id":"2","name":"a","input":{}}`
	const said = `{"type":"text","text":"c"}`
	testRules(t, []rule{
		{name: "it goes back first", members: history(`"content":"c","tool_calls":[` + call("1", one, two) + `]`),
			path: "messages.1.content", want: `[` + first + `,` + second + `,` + said + `,` + use1 + `]`},
		{name: "thinking by budget goes on", members: history(`"tool_calls":[` + call("1", one) + `]`),
			path: "thinking.type", want: `"enabled"`},
		{name: "the id is the vendor's", members: history(`"tool_calls":[` + call("1", one) + `]`),
			path: "messages.2.content.0.tool_use_id", want: `"1"`},
		{name: "what came between two calls stands between them", members: history(`"content":"c","tool_calls":[` +
			call("1", one) + `,` + call("2", two) + `]`), path: "messages.1.content", want: `[` + first + `,` + said + `,` +
			use1 + `,` + second + `,` + use2 + `]`},
		{name: "an echo of the same changes nothing", members: history(`"thinking_blocks":[` + first + `,` + second +
			`],"tool_calls":[` + call("1", one) + `,` + call("2", two) + `]`), path: "messages.1.content", want: `[` + first +
			`,` + use1 + `,` + second + `,` + use2 + `]`},
		{name: "an echo of others wins", members: history(`"thinking_blocks":[` + second + `],"tool_calls":[` +
			call("1", one) + `]`), path: "messages.1.content", want: `[` + second + `,` + use1 + `]`},
		{name: "report 8: parts stand where they stood", members: history(`"content":[` + first + `,` + said + `,` + second +
			`],"tool_calls":[` + call("1") + `]`), path: "messages.1.content", want: `[` + first + `,` + said + `,` + second +
			`,` + use1 + `]`},
		{name: "report 8: with them thinking by budget goes on", members: history(`"content":[` + first +
			`],"tool_calls":[` + call("1") + `]`), path: "thinking.type", want: `"enabled"`},
		{name: "report 8: parts that ids carry too are not doubled", members: history(`"content":[` + first + `,` + said +
			`],"tool_calls":[` + call("1", one) + `]`), path: "messages.1.content", want: `[` + first + `,` + said + `,` +
			use1 + `]`},
		{name: "report 8: nor are those that thinking_blocks repeat", members: history(`"thinking_blocks":[` + first +
			`],"content":[` + first + `,` + said + `],"tool_calls":[` + call("1") + `]`), path: "messages.1.content",
			want: `[` + first + `,` + said + `,` + use1 + `]`},
		{name: "report 8: a part that is not signed is left out",
			members: history(`"content":[{"type":"thinking","thinking":"t"},` + said + `],"tool_calls":[` + call("1", one) +
				`]`), path: "messages.1.content", want: `[` + first + `,` + said + `,` + use1 + `]`,
			dropped: []string{"messages.content.thinking"}},
		{name: "report 8: no turn ends with a thought",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` + said + `,` + first +
				`]},{"role":"user","content":"y"}]`, path: "messages.1.content", want: `[` + said + `]`},
		{name: "report 8: thoughts alone are no turn",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` + first +
				`]},{"role":"user","content":"y"}]`, path: "messages.#", want: `1`},
		{name: "report 8: a model without thinking gets none", model: oldest,
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` + first + `,` + said +
				`]},{"role":"user","content":"y"}]`, path: "messages.1.content", want: `[` + said + `]`,
			dropped: []string{"messages.content.thinking"}},
		{name: "report 8: LiteLLM's blocks lose their mark for the cache",
			members: history(`"thinking_blocks":[{"type":"thinking","thinking":"é < 1","signature":"s1","cache_control":{"type":"ephemeral"}}],"tool_calls":[` + call("1") + `]`), path: "messages.1.content.0", want: first, dropped: []string{"cache_control"}},
		{name: "nothing is doubled", members: history(`"tool_calls":[` + call("1", one) + `,` + call("2", one) + `]`),
			path: "messages.1.content", want: `[` + first + `,` + use1 + `,` + use2 + `]`},
		{name: "what is not signed is ignored", members: history(`"tool_calls":[` + call("1", Thought{Text: "t"}) + `]`),
			path: "messages.1.content", want: `[` + use1 + `]`, dropped: []string{"reasoning_effort"}},
		{name: "what others carry is ignored", members: history(`"tool_calls":[{"id":"` +
			carrier.Carry("1", []byte(`{"gemini":{"x":1}}`)) +
			`","type":"function","function":{"name":"a","arguments":"{}"}}]`), path: "messages.1.content", want: `[` + use1 +
			`]`, dropped: []string{"reasoning_effort"}},
		{name: "so is what cannot be read", members: history(`"tool_calls":[{"id":"` +
			carrier.Carry("1", []byte(`{"messages":[{"type":"thinking","sig`)) +
			`","type":"function","function":{"name":"a","arguments":"{}"}}]`), path: "messages.1.content", want: `[` + use1 +
			`]`, dropped: []string{"reasoning_effort"}},
		{name: "a model without thinking gets none", model: oldest,
			members: strings.Replace(history(`"tool_calls":[`+call("1", one)+`]`), `"reasoning_effort":"low",`, "", 1),
			path:    "messages.1.content", want: `[` + use1 + `]`},
		{name: "a model that binds it passes over what does not fit", model: "claude-opus-5-5",
			members: history(`"tool_calls":[` + call("1", one) + `]`), path: "thinking",
			want: `{"type":"adaptive","display":"summarized","block_binding":{"prefix_mismatch_behavior":"drop_block"}}`},
		{name: "by a beta", model: "claude-opus-5-5", members: history(`"tool_calls":[` + call("1", one) + `]`),
			path: "anthropic_beta", want: `["thinking-binding-controls-2026-08-01"]`},
		{name: "also where no effort is asked for", model: "claude-opus-5-5",
			members: strings.Replace(history(`"tool_calls":[`+call("1", one)+`]`), `"reasoning_effort":"low",`, "", 1),
			path:    "thinking.block_binding.prefix_mismatch_behavior", want: `"drop_block"`},
		{name: "unless thinking is off", model: "claude-haiku-5-5",
			members: strings.Replace(history(`"tool_calls":[`+call("1", one)+`]`), `"low"`, `"none"`, 1),
			path:    "messages.1.content", want: `[` + use1 + `]`},
		{name: "or the client says how", model: "claude-opus-5-5",
			members: strings.Replace(history(`"tool_calls":[`+call("1", one)+`]`), `"reasoning_effort":"low"`,
				`"thinking":{"type":"adaptive"}`, 1), path: "thinking", want: `{"type":"adaptive"}`},
		{name: "without thoughts there is nothing to pass over", model: "claude-opus-5-5",
			members: history(`"tool_calls":[` + call("1") + `]`), path: "thinking",
			want: `{"type":"adaptive","display":"summarized"}`},
	})
}

// What an answer carries must come back in the next request as it was, whole or streamed.
func TestPitfall56ThinkingSurvivesTheRoundTrip(t *testing.T) {
	const blocks = `[{"type":"thinking","thinking":"a\nb","signature":"s1=="},{"type":"text","text":"c"},{"type":"tool_use","id":"t1","name":"a","input":{}},` +
		`{"type":"redacted_thinking","data":"r2"},{"type":"thinking","thinking":"","signature":"s3"},{"type":"tool_use","id":"t2","name":"a","input":{"x":1}}]`
	events := []string{started}
	for i, b := range gjson.Parse(blocks).Array() {
		begun, delta := b.Raw, ""
		switch b.Get("type").Str {
		case "thinking":
			begun = `{"type":"thinking","thinking":"","signature":""}`
			delta = fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"thinking_delta","thinking":%s}}`+
				"\n\ndata:"+`{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%s}}`, i,
				b.Get("thinking").Raw, i, b.Get("signature").Raw)
		}
		events = append(events, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, begun))
		if delta != "" {
			events = append(events, delta)
		}
		events = append(events, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	deltas, _, err := stream(t, &Answer{}, append(events, `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
		stopped)...)
	require.NoError(t, err)
	var streamed []string
	for line := range strings.Lines(deltas) {
		if id := gjson.Get(line, "tool_calls.0.id").Str; id != "" {
			streamed = append(streamed, id)
		}
	}
	whole, _, err := chattest.Decode((&Answer{}), []byte(`{"type":"message","id":"m","content":`+blocks+
		`,"stop_reason":"tool_use"}`), "m", 1)
	require.NoError(t, err)
	var unary []string
	for _, id := range gjson.GetBytes(whole, "choices.0.message.tool_calls.#.id").Array() {
		unary = append(unary, id.Str)
	}
	for name, ids := range map[string][]string{"streamed": streamed, "whole": unary} {
		t.Run(name, func(t *testing.T) {
			require.Len(t, ids, 2)
			got, _, _, err := encode(t, middle,
				fmt.Sprintf(`"tools":[%s],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"c","tool_calls":[
				{"id":%q,"type":"function","function":{"name":"a","arguments":"{}"}},{"id":%q,"type":"function","function":{"name":"a","arguments":"{\"x\":1}"}}]},
				{"role":"tool","tool_call_id":%q,"content":"r"},{"role":"tool","tool_call_id":%q,"content":"s"}]`, toolA, ids[0], ids[1], ids[0], ids[1]), false)
			require.NoError(t, err)
			require.Equal(t, blocks, got.Get("messages.1.content").Raw)
			require.Equal(t, `["t1","t2"]`, got.Get("messages.2.content.#.tool_use_id").Raw)
		})
	}
}
