package all

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// Whatever effort a client of another dialect asks for, a model gets one that it has, or none. Coding agents always
// ask for one.
func TestEveryModelGetsAnEffortThatItHas(t *testing.T) {
	names, err := os.ReadFile("../../catalog/testdata/known_names.txt")
	require.NoError(t, err)
	asks := map[translate.Endpoint][]string{
		translate.Gemini: {`"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`,
			`"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}}`,
			`"generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}}`,
			`"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}`},
		translate.Messages: {`"thinking":{"type":"disabled"}`, `"thinking":{"type":"adaptive"}`,
			`"thinking":{"type":"enabled","budget_tokens":2048}`, `"output_config":{"effort":"low"}`,
			`"output_config":{"effort":"xhigh"}`, `"output_config":{"effort":"max"}`},
	}
	asks[translate.Responses] = []string{`"reasoning":{"effort":"none"}`, `"reasoning":{"effort":"minimal"}`,
		`"reasoning":{"effort":"medium","summary":"auto"}`, `"reasoning":{"effort":"xhigh"}`}
	heads := map[translate.Endpoint]string{
		translate.Gemini:    `{"model":"m","contents":[{"role":"user","parts":[{"text":"hi"}]}],`,
		translate.Responses: `{"model":"m","input":"hi",`,
		translate.Messages:  `{"model":"m","max_tokens":8000,"messages":[{"role":"user","content":"hi"}],`,
	}
	facts, tried := catalog.New(nil), 0
	for line := range strings.Lines(string(names)) {
		vendor, model, ok := strings.Cut(strings.TrimSpace(line), " ")
		can := facts.Facts(vendor, model).GetCapabilities()
		p, serves := Providers()[vendor]
		if !ok || !serves || p.Chat == nil || strings.Contains(model, "embed") || strings.Contains(model, "rerank") {
			continue
		}
		target := provider.Target{Model: model, Facts: facts.Facts(vendor, model),
			Config: translate.Complete(p, &configv1.Provider{})}
		p = p.For(target.Config)
		_, native := p.NativePath("/responses", target)
		for dialect, all := range asks {
			if dialect == translate.Responses && native { // it passes as it is
				continue
			}
			for _, asked := range all {
				r, err := translate.Parse(p, dialect, []byte(heads[dialect]+asked+"}"))
				require.NoError(t, err)
				sent, _, err := r.Encode(target)
				require.NoError(t, err, "%s %s, %s", vendor, model, asked)
				tried++
				if len(can.GetEfforts()) == 0 || slices.Contains([]string{"anthropic", "bedrock", "gemini", "vertex"}, vendor) {
					continue // theirs are not OpenAI's words
				}
				effort := gjson.GetBytes(sent.Body, "reasoning_effort").Str + gjson.GetBytes(sent.Body, "reasoning.effort").Str
				isSwitch := effort == "none" && can.GetThinking() == configv1.Thinking_ADAPTIVE
				require.True(t, effort == "" || isSwitch || slices.Contains(can.GetEfforts(), effort), "%s %s gets %q for %s",
					vendor, model, effort, asked)
			}
		}
	}
	require.Greater(t, tried, 200)
}
