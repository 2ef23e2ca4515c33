package configv1

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "A", false}, {"a", "ab", false}, {"ab", "a", false},
		{"*", "", true}, {"*", "a/b.c", true}, {"a*", "a", true}, {"a*", "ba", false}, {"*a", "ba", true},
		{"*a", "ab", false},
		{"a*c", "ac", true}, {"a*c", "abbc", true}, {"a*c", "abcd", false}, {"*b*", "abc", true}, {"*b*", "ac", false},
		{"a*b*c", "a-b-b-c", true}, {"a*b*c", "a-c-b", false}, {"gpt-*-mini*", "gpt-4o-mini-2024", true}, {"a**", "a", true},
		{"a*a", "a", false}, {"gemini-?", "gemini-1", false}, {"[a]", "a", false},
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "anything", true},
		{"a*", "abc", true}, {"a*", "ba", false}, {"*c", "abc", true}, {"*c", "abcd", false},
		{"a*c", "abc", true}, {"a*c", "ac", true}, {"a*c", "a", false}, {"a*a", "a", false},
		{"*b*", "abc", true}, {"*x*", "abc", false}, {"a*b*c", "a1b2c", true}, {"a*b*b", "ab", false},
		{"*ab*ab*", "abab", true}, {"*ab*ab*", "aba", false},
		{"a.b", "aXb", false}, {"**", "a", true},
		{"a", "a", true}, {"a", "b", false}, {"a", "ab", false}, {"*", "", true}, {"*", "a/b", true},
		{"openai/*", "openai/gpt-4o", true}, {"openai/*", "openai2/gpt", false}, {"*/gpt*mini", "x/gpt-4o-mini", true},
		{"*/gpt*mini", "x/gpt-4o-mini-2", false}, {"a*b*c", "abbc", true}, {"a**", "a", true}, {"", "", true},
		{"", "a", false},
	} {
		require.Equal(t, c.want, Matches(c.pattern, c.name), "%q %q", c.pattern, c.name)
	}
	require.False(t, Matches(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 100_000)),
		"a name is the client's: it takes no time that grows faster than it")
}

func FuzzMatches(f *testing.F) {
	f.Add("*ab*ab*", "abab")
	f.Add("a*b", "a\nb")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 50 || len(name) > 200 {
			return
		}
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		if err != nil || !isText(name) {
			return
		}
		require.Equal(t, re.MatchString(name), Matches(pattern, name), "%q against %q", pattern, name)
	})
}

// isText reports whether every byte is ASCII: expressions match by runes.
func isText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
