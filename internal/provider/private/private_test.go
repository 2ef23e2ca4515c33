package private

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesOfThePrompt(t *testing.T) {
	const line = "x-anthropic-billing-header: cc_version=2; cch=36ee5;"
	for given, want := range map[string]string{
		"":                                   "",
		line:                                 "",
		line + "\n":                          "",
		line + "\n\nYou are an agent.":       "You are an agent.",
		"  " + line + "\r\nYou are.":         "You are.",
		"You are.\n" + line + "\nGo on.":     "You are.\nGo on.",
		"You are.\n" + line:                  "You are.\n",
		line + "\n" + line + "\nYou are.":    "You are.",
		"The header " + line + " is a line.": "The header " + line + " is a line.",
		"\n\nYou are.":                       "\n\nYou are.",
	} {
		require.Equal(t, want, Prompt(given, "vertex"), given)
		require.Equal(t, given, Prompt(given, Anthropic), given)
	}
}

func TestMembers(t *testing.T) {
	require.True(t, Takes("openai", Member, "client_metadata"))
	require.False(t, Takes("groq", Member, "client_metadata"))
	require.True(t, Takes("groq", Member, "metadata"))
	require.False(t, Takes("vertex", CacheControl, "scope"))
	require.True(t, Takes(Anthropic, CacheControl, "scope"))
	require.True(t, Mentioned([]byte(`{"system":"x-anthropic-billing-header: a"}`)))
	require.False(t, Mentioned([]byte(`{"system":"client_metadata"}`)))
}
