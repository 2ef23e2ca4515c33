package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKnownModelsAreThoseOfTheFileOnce(t *testing.T) {
	c, seen := New(nil), map[string]Known{}
	all := c.Known()
	for _, k := range all {
		at := k.Vendor + " " + k.Name
		require.Zero(t, seen[at], at)
		require.False(t, k.Exact && strings.Contains(k.Name, "*"), at)
		require.Equal(t, c.Facts(k.Vendor, k.Name), k.Facts, at)
		seen[at] = k
	}
	require.Greater(t, len(seen), 250)
	for name, exact := range map[string]bool{"openai gpt-4.1": true, "openai gpt-5.4-mini": false, "openai o3-pro": false,
		"anthropic claude-opus-4-8": false, "xai grok-code-fast-1": true, "gemini gemini-2.5-pro": true,
		"zai glm-5.3": false} {
		require.NotZero(t, seen[name], name)
		require.Equal(t, exact, seen[name].Exact, name)
	}
	for _, pattern := range []string{"openai gpt-4.1-2", "openai gpt-5*", "openai ft:gpt-5", "anthropic claude",
		"anthropic ", "gemini gemini-2.5-pro-preview-0"} {
		require.Zero(t, seen[pattern], "%s is a pattern of versions, or of many models", pattern)
	}
	for _, e := range builtinCatalog(t).GetModels() {
		for _, vendor := range e.GetVendors() {
			for _, pattern := range e.GetModels() {
				name := strings.Trim(pattern, "*")
				covered := slices.ContainsFunc(all, func(k Known) bool {
					return k.Vendor == vendor && strings.HasPrefix(name, strings.Trim(k.Name, "*"))
				})
				require.True(t, covered || e.GetPrice() == nil, "%s %s has a price, and is not listed", vendor, pattern)
			}
		}
	}
}
