package reasoning

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func read(t *testing.T, members string) (Wish, error) {
	t.Helper()
	r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + members + `}`))
	require.NoError(t, err)
	c, err := r.Chat()
	require.NoError(t, err)
	return Of(r, c)
}

func TestOf(t *testing.T) {
	for members, want := range map[string]Wish{
		`"reasoning_effort":null,"reasoning":{},"thinking":null,"output_config":{}`: {},
		`"reasoning_effort":"high"`: {Param: "reasoning_effort", Effort: "high"},

		`"reasoning":{"effort":"low"}`: {Param: "reasoning", Effort: "low", Read: "reasoning"},
		`"reasoning":{"max_tokens":3000,"exclude":true}`: {Param: "reasoning", Budget: 3000, Hidden: "reasoning.exclude",
			Read: "reasoning"},
		`"reasoning":{"enabled":true}`:                  {Param: "reasoning", Read: "reasoning"},
		`"reasoning":{"enabled":false,"effort":"high"}`: {Param: "reasoning", Effort: "none", Read: "reasoning"},
		`"reasoning":{"effort":null,"summary":null}`:    {},
		`"reasoning":{"summary":"auto"}`:                {},
		`"reasoning":{"effort":"low","summary":"auto"}`: {Param: "reasoning", Effort: "low", Read: "reasoning",
			Ignored: []string{"reasoning.summary"}},

		`"thinking":{"type":"enabled","budget_tokens":2048}`: {Param: "thinking", Budget: 2048,
			Read: "output_config"},
		`"thinking":{"type":"enabled","token_budget":2048}`: {Param: "thinking", Budget: 2048,
			Read: "output_config"},
		`"thinking":{"type":"disabled"}`: {Param: "thinking", Effort: "none",
			Read: "output_config"},
		`"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}`: {Param: "thinking", Effort: "max",
			Read: "output_config"},
		`"output_config":{"effort":"high"}`: {Param: "output_config", Effort: "high",
			Read: "output_config"},
		`"output_config":{"effort":"high","format":{}}`: {Param: "output_config", Effort: "high",
			Read: "output_config", Ignored: []string{"output_config"}},
		`"output_config":{"effort":"high"},"reasoning_effort":"low"`: {Param: "reasoning_effort",
			Effort: "low"},
		`"thinking":{"type":"enabled","budget_tokens":1},"reasoning_effort":"low"`: {Param: "thinking", Budget: 1,
			Read: "output_config", Ignored: []string{"reasoning_effort"}},

		`"extra_body":{"google":{"thinking_config":{"thinking_budget":800,"include_thoughts":true}}}`: {Param: "extra_body.google.thinking_config", Budget: 800, Read: "extra_body"},
		`"google":{"thinking_config":{"thinking_level":"LOW","include_thoughts":false},"x":1}`:        {Param: "google.thinking_config", Effort: "low", Hidden: "google.thinking_config.include_thoughts"},
		`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`:                                  {Param: "generationConfig.thinkingConfig", Effort: "none", Read: "generationConfig"},
		`"thinking_config":{"thinking_budget":-1}`:                                                    {Param: "thinking_config", Read: "thinking_config"},
	} {
		got, err := read(t, members)
		require.NoError(t, err, members)
		require.Equal(t, want, got, members)
	}
}

func TestOfRefusesWhatIsNoWish(t *testing.T) {
	for members, param := range map[string]string{
		`"reasoning_effort":"huge"`:                              "reasoning_effort",
		`"reasoning":{"effort":"huge"}`:                          "reasoning.effort",
		`"reasoning":"high"`:                                     "reasoning",
		`"thinking":true`:                                        "thinking",
		`"thinking":{"budget_tokens":2048}`:                      "thinking",
		`"output_config":{"effort":"huge"}`:                      "output_config.effort",
		`"google":{"thinking_config":{"thinking_level":"huge"}}`: "google.thinking_config",
	} {
		_, err := read(t, members)
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, members)
		require.Equal(t, param, e.Param, members)
	}
}

func TestLevel(t *testing.T) {
	for want, w := range map[string]Wish{
		"none": {Effort: "none"}, "max": {Effort: "max", Budget: 1}, "low": {Budget: 2048}, "medium": {},
		"high": {Budget: 16384}, "xhigh": {Budget: 64000},
	} {
		require.Equal(t, want, w.Level())
	}
	require.True(t, (&Wish{Effort: None}).Off())
}
