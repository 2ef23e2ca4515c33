package gemini

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/compatible"
)

const (
	unaryPath = Prefix + "models/m:generateContent"
	contents  = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],`
)

// sentFor returns what a vendor of OpenAI's dialect gets, or the error.
func sentFor(t *testing.T, members string) (provider.Request, error) {
	t.Helper()
	r, err := parseUnary(inbound.Head{Path: unaryPath}, []byte(contents+members+"}"))
	if err != nil {
		return provider.Request{}, err
	}
	v := compatible.Provider()
	sent, _, err := r.Encode(&v, provider.Target{Config: &configv1.Provider{Name: "p"}, Model: "m"})
	return sent, err
}

// TestNamesHaveTwoSpellings: camel case and underscores, and nothing else.
func TestNamesHaveTwoSpellings(t *testing.T) {
	for _, members := range []string{
		`"generationConfig":{"maxOutputTokens":5,"topK":1},"tools":[{"functionDeclarations":[{"name":"f"}]}]`,
		`"generation_config":{"max_output_tokens":5,"top_k":1},"tools":[{"function_declarations":[{"name":"f"}]}]`,
		`"gener\u0061tion_config":{"max\u005foutput_tokens":5,"top_k":1},"tools":[{"functionDeclarations":[{"name":"f"}]}]`,
	} {
		sent, err := sentFor(t, members)
		require.NoError(t, err, members)
		require.Equal(t, int64(5), gjson.GetBytes(sent.Body, "max_tokens").Int(), members)
		require.Equal(t, "f", gjson.GetBytes(sent.Body, "tools.0.function.name").Str, members)
	}
	for members, dropped := range map[string]string{
		`"GenerationConfig":{"maxOutputTokens":5}`:          "GenerationConfig",
		`"generationConfig":{"MaxOutputTokens":5}`:          "generationConfig.MaxOutputTokens",
		`"generation-config":{"maxOutputTokens":5}`:         "generation-config",
		`"generationconfig":{"maxOutputTokens":5}`:          "generationconfig",
		`"Tools":[{"functionDeclarations":[{"name":"f"}]}]`: "Tools",
		`"ServiceTier":"priority"`:                          "ServiceTier",
		`"SERVICE_TIER":"priority"`:                         "SERVICE_TIER",
	} {
		sent, err := sentFor(t, members)
		require.NoError(t, err, members)
		require.Equal(t, []string{dropped}, sent.Dropped, members)
		require.False(t, gjson.GetBytes(sent.Body, "max_tokens").Exists() || gjson.GetBytes(sent.Body, "tools").Exists() ||
			gjson.GetBytes(sent.Body, "service_tier").Exists(), "%s", sent.Body)
	}
	_, err := sentFor(t, `"tools":[{"FunctionDeclarations":[{"name":"f"}]}]`)
	require.ErrorContains(t, err, "FunctionDeclarations")
}

// TestBothSpellingsAtOnceAreRefused also for Google's own models, which get the request as it is.
func TestBothSpellingsAtOnceAreRefused(t *testing.T) {
	for _, members := range []string{
		`"generationConfig":{},"generation_config":{}`,
		`"generationConfig":{"maxOutputTokens":5,"max_output_tokens":50}`,
		`"tools":[{"functionDeclarations":[],"function_declarations":[{"name":"f"}]}]`,
		`"serviceTier":"flex","service_tier":"priority"`,
		`"toolConfig":{},"tool\u005fconfig":{}`,
	} {
		_, err := parseUnary(inbound.Head{Path: unaryPath}, []byte(contents+members+"}"))
		require.ErrorContains(t, err, "both spellings", members)
	}
	_, err := sentFor(t, `"systemInstruction":{"parts":[{"text":"a"}]},"generationConfig":{}`)
	require.NoError(t, err)
	require.Equal(t, "90000", string((&request{members: openai.MembersOf(
		[]byte(`{"generation_config":{"maxOutputTokens":"90000"}}`))}).Get("max_tokens")), "Google takes texts")
}
