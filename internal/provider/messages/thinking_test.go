package messages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestReasoningEffort(t *testing.T) {
	const signed = `"thinking_blocks":[{"signature":"s","thinking":"é < 1","type":"thinking"}],`
	history := func(extra string) string {
		return `"tools":[` + toolA + `],"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant",` + extra + `"tool_calls":[` + callA1 + `]},{"role":"tool","tool_call_id":"1","content":"r"}]`
	}
	testRules(t, []rule{
		{name: "a budget", members: `"reasoning_effort":"medium"`, path: "thinking", want: `{"type":"enabled","budget_tokens":10000}`},
		{name: "TestPitfall55 max_tokens holds the budget and what the client wants", members: `"reasoning_effort":"medium","max_completion_tokens":500`, path: "max_tokens", want: `10500`},
		{name: "TestPitfall55 max_tokens stays within the model's", model: "claude-opus-4-1", members: `"reasoning_effort":"max","max_completion_tokens":500`, path: "max_tokens", want: `32000`},
		{name: "TestPitfall55 the budget leaves room for the answer", model: "claude-opus-4-1", members: `"reasoning_effort":"max","max_completion_tokens":500`, path: "thinking.budget_tokens", want: `30976`},
		{name: "TestPitfall55 the client's own budget is made to fit", members: `"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":500`, path: "max_tokens", want: `2500`},
		{name: "the client's own parameter passes as it is", model: newest, members: `"thinking":{"type":"adaptive","display":"omitted","new":1}`, path: "thinking", want: `{"type":"adaptive","display":"omitted","new":1}`},
		{name: "the client's own parameter wins", members: `"thinking":{"type":"disabled"},"reasoning_effort":"high"`, path: "thinking", want: `{"type":"disabled"}`, dropped: []string{"reasoning_effort"}},
		{name: "none by budget", members: `"reasoning_effort":"none"`, path: "thinking"},
		{name: "none where there is no thinking", model: oldest, members: `"reasoning_effort":"none"`, path: "thinking"},
		{name: "none where it is adaptive", model: adaptive, members: `"reasoning_effort":"none"`, path: "thinking", want: `{"type":"disabled"}`},
		{name: "none where it cannot be turned off", model: always, members: `"reasoning_effort":"none"`, path: "output_config", want: `{"effort":"low"}`, dropped: []string{"reasoning_effort"}},
		{name: "adaptive", model: adaptive, members: `"reasoning_effort":"minimal"`, path: "thinking", want: `{"type":"adaptive"}`},
		{name: "adaptive that shows its text only when asked", model: newest, members: `"reasoning_effort":"low"`, path: "thinking", want: `{"type":"adaptive","display":"summarized"}`},
		{name: "the nearest effort", model: adaptive, members: `"reasoning_effort":"xhigh"`, path: "output_config", want: `{"effort":"max"}`},
		{name: "the least effort", model: adaptive, members: `"reasoning_effort":"minimal"`, path: "output_config", want: `{"effort":"low"}`},
		{name: "adaptive thinking and a forced tool get along", model: adaptive, members: `"reasoning_effort":"low","tools":[` + toolA + `],"tool_choice":"required"`, path: "thinking.type", want: `"adaptive"`},
		{name: "a budget and a forced tool do not", members: `"reasoning_effort":"low","tools":[` + toolA + `],"tool_choice":"required"`, path: "thinking", dropped: []string{"reasoning_effort"}},
		{name: "TestPitfall56 signed thinking goes back first and as it was", members: history(signed + `"content":"c",`), path: "messages.1.content.0", want: `{"signature":"s","thinking":"é < 1","type":"thinking"}`},
		{name: "TestPitfall56 with it thinking goes on", members: history(signed), path: "thinking.type", want: `"enabled"`},
		{name: "TestPitfall56 without it thinking by budget is off", members: history(`"reasoning_content":"unsigned",`), path: "thinking", dropped: []string{"reasoning_effort"}},
		{name: "TestPitfall56 adaptive thinking does without it", model: adaptive, members: history(""), path: "thinking.type", want: `"adaptive"`},
		{name: "TestPitfall56 after an answer in words thinking by budget is on", members: `"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]`, path: "thinking.type", want: `"enabled"`},
		{name: "a beginning of the answer rules thinking by budget out", members: `"reasoning_effort":"low","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]`, path: "thinking", dropped: []string{"reasoning_effort"}},
		{name: "a model without thinking gets no blocks of it", model: oldest, members: `"messages":[{"role":"user","content":"x"},{"role":"assistant",` + signed + `"content":"y"},{"role":"user","content":"z"}]`, path: "messages.1.content.#", want: `1`},
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

func TestCapabilities(t *testing.T) {
	for model, want := range map[string]struct {
		max        int64
		thinking   string
		structured bool
		sampling   string
	}{
		"claude-fable-5":                               {128000, thinkingAlways, true, samplingNone},
		"claude-mythos-preview":                        {128000, thinkingAlways, true, samplingNone},
		"claude-opus-5":                                {128000, thinkingAdaptive, true, samplingNone},
		"claude-sonnet-5":                              {128000, thinkingAdaptive, true, samplingNone},
		"claude-haiku-5-5":                             {128000, thinkingAdaptive, true, samplingNone},
		"claude-opus-4-8":                              {128000, thinkingAdaptive, true, samplingNone},
		"claude-opus-4-7":                              {128000, thinkingAdaptive, true, samplingNone},
		"claude-opus-4-6":                              {128000, thinkingAdaptive, true, samplingOne},
		"anthropic/claude-opus-4.6":                    {128000, thinkingAdaptive, true, samplingOne},
		"claude-sonnet-4-6":                            {128000, thinkingAdaptive, true, samplingOne},
		"claude-haiku-4-5-20251001":                    {64000, thinkingBudget, true, samplingOne},
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0": {64000, thinkingBudget, true, samplingOne},
		"claude-opus-4-5":                              {64000, thinkingBudget, true, samplingOne},
		"claude-opus-4-1-20250805":                     {32000, thinkingBudget, true, samplingOne},
		"claude-opus-4-20250514":                       {32000, thinkingBudget, false, samplingBoth},
		"claude-sonnet-4-0":                            {64000, thinkingBudget, false, samplingBoth},
		"claude-sonnet-4-20250514":                     {64000, thinkingBudget, false, samplingBoth},
		"claude-3-7-sonnet@20250219":                   {64000, thinkingBudget, false, samplingBoth},
		"claude-3-5-haiku-20241022":                    {8192, thinkingNone, false, samplingBoth},
		"claude-3-haiku-20240307":                      {4096, thinkingNone, false, samplingBoth},
		"kimi-k3":                                      {4096, thinkingBudget, false, samplingBoth},
	} {
		t.Run(model, func(t *testing.T) {
			c := builtIn().find(model)
			require.Equal(t, want.max, c.MaxOutputTokens)
			require.Equal(t, want.thinking, c.Thinking)
			require.Equal(t, want.structured, c.StructuredOutput)
			require.Equal(t, want.sampling, c.Sampling)
		})
	}
}

func TestCapabilitiesThatAreWrongAreRefused(t *testing.T) {
	for data, message := range map[string]string{
		`models: []`: "last pattern must be empty",
		`models: [{pattern: x, max_output_tokens: 1, thinking: none, sampling: both}]`:    "last pattern must be empty",
		`models: [{pattern: "(", max_output_tokens: 1, thinking: none, sampling: both}]`:  "error parsing regexp",
		`models: [{pattern: "", thinking: none, sampling: both}]`:                         "max_output_tokens is missing",
		`models: [{pattern: "", max_output_tokens: 1, thinking: some, sampling: both}]`:   `thinking "some" is unknown`,
		`models: [{pattern: "", max_output_tokens: 1, thinking: none, sampling: little}]`: `sampling "little" is unknown`,
		`colours: 1`: "unknown field",
	} {
		_, err := parseCapabilities([]byte(data))
		require.ErrorContains(t, err, message)
	}
}
