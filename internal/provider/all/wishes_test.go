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
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/translate"
)

// Clients of other dialects, such as coding agents, say to every model how it is to sample, and whether it may call
// several tools at once. They also offer each a search of the web. No model refuses a request for that, and none gets
// what it does not take.
func TestNoModelRefusesTheWishesOfAnotherDialect(t *testing.T) {
	names, err := os.ReadFile("../../catalog/testdata/known_names.txt")
	require.NoError(t, err)
	bodies := map[translate.Endpoint]string{
		translate.Gemini: `{"model":"m","contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"temperature":0.3,"topP":0.9,"topK":5,"seed":7,"presencePenalty":0.5,"frequencyPenalty":0.5,"thinkingConfig":{"thinkingLevel":"HIGH"}}`,
		translate.Responses: `{"model":"m","input":"hi","parallel_tool_calls":false,"text":{"verbosity":"low"},"service_tier":"priority","temperature":0.3,"top_p":0.9` +
			`,"reasoning":{"effort":"high"}`,
		translate.Messages: `{"model":"m","max_tokens":8000,"messages":[{"role":"user","content":"hi"}],"temperature":0.3,"top_k":5,"service_tier":"standard_only","thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`,
	}
	tools := map[translate.Endpoint]string{
		translate.Gemini:    `,"tools":[{"functionDeclarations":[{"name":"f"}]}]}`,
		translate.Responses: `,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}},{"type":"web_search"}]}`,
		translate.Messages:  `,"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search","max_uses":8}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`,
	}
	facts, tried := catalog.New(nil), 0
	for line := range strings.Lines(string(names)) {
		vendor, model, ok := strings.Cut(strings.TrimSpace(line), " ")
		p, serves := Providers()[vendor]
		if !ok || !serves || p.Chat == nil || strings.Contains(model, "embed") || strings.Contains(model, "rerank") {
			continue
		}
		target := provider.Target{Model: model, Facts: facts.Facts(vendor, model),
			Config: translate.Complete(p, &configv1.Provider{})}
		p = p.For(target.Config)
		_, native := p.NativePath("/responses", target)
		for dialect, body := range bodies {
			end := tools[dialect]
			if vendor == "perplexity" { // it has no tools
				end = "}"
			}
			if dialect == translate.Responses && native { // it passes as it is
				continue
			}
			r, err := translate.Parse(p, dialect, []byte(body+end))
			require.NoError(t, err)
			sent, _, err := r.Encode(target)
			require.NoError(t, err, "%s %s, %s", vendor, model, dialect)
			tried++
			if strings.Contains(model, "-codex") && vendor == "openai" {
				require.Equal(t, "/responses", sent.Path, "%s is nowhere else", model)
			}
			for _, name := range target.Can().GetUnsupportedParameters() {
				if turns.IsWish(name, false) && gjson.Get(body, name).Exists() {
					require.False(t, gjson.GetBytes(sent.Body, name).Exists(), "%s %s gets %s", vendor, model, name)
					require.Contains(t, sent.Dropped, name, "%s %s", vendor, model)
				}
			}
			if strings.HasSuffix(sent.Path, "/chat/completions") && vendor != "mistral" { // it has a search of that name
				for _, typ := range gjson.GetBytes(sent.Body, "tools.#.type").Array() {
					require.Equal(t, "function", typ.Str, "%s %s, %s", vendor, model, dialect)
				}
			}
			if strings.HasPrefix(sent.Path, "/chat/completions") && slices.Contains([]string{"openai", "azure"}, vendor) &&
				gjson.GetBytes(sent.Body, "reasoning_effort").Exists() {
				require.NotContains(t, string(sent.Body), `"temperature"`, "%s does not take it while it reasons", model)
			}
		}
	}
	require.Greater(t, tried, 200)
}
