package configv1

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDidYouMeanSuggestsTheMostSimilarWord(t *testing.T) {
	words := []string{"name", "vendor", "endpoint", "headers", "timeouts", "tls", "api_version", "openai", "OpenRouter"}
	for written, want := range map[string]string{
		"vender":        "; did you mean vendor?",
		"vendro":        "; did you mean vendor?",
		"VENDOR":        "; did you mean vendor?",
		"header":        "; did you mean headers?",
		"api-version":   "; did you mean api_version?",
		"apiVersoin":    "; did you mean api_version?",
		"open-ai":       "; did you mean openai?",
		"openruoter":    "; did you mean OpenRouter?",
		"url":           "",
		"":              "",
		"tl":            "",
		"base_url":      "",
		"organizations": "",
	} {
		require.Equal(t, want, didYouMean(written, words), written)
	}
}

func TestEditsAreCountedInBothDirections(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abcd", 1}, {"abc", "bc", 1},
		{"abc", "axc", 1}, {"kitten", "sitting", 3}, {"abcd", "badc", 2}} {
		require.Equal(t, tc.want, edits(tc.a, tc.b), "%s %s", tc.a, tc.b)
		require.Equal(t, tc.want, edits(tc.b, tc.a), "%s %s", tc.b, tc.a)
	}
}
