package scan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const plenty = 1 << 40

type finds interface {
	Find(ctx context.Context, work *Work, text string, found func(from, to int)) error
}

func places(t testing.TB, f finds, text string) [][]int {
	t.Helper()
	var all [][]int
	found := func(from, to int) { all = append(all, []int{from, to}) }
	require.NoError(t, f.Find(t.Context(), NewWork(plenty), text, found))
	return all
}

func patterns(t testing.TB, all ...string) *Patterns {
	t.Helper()
	p, err := NewPatterns(all)
	require.NoError(t, err)
	return p
}

// steps returns how many steps something takes.
func steps(t testing.TB, f finds, text string) int64 {
	t.Helper()
	w := NewWork(plenty)
	require.NoError(t, f.Find(t.Context(), w, text, func(int, int) {}))
	return plenty - w.Left()
}

// wordsByRegexp are the places of words that package regexp finds, each word by itself, at each place of a text.
func wordsByRegexp(words []string, text string) [][]int {
	var each []*regexp.Regexp
	for _, w := range words {
		each = append(each, regexp.MustCompile("^(?i:"+regexp.QuoteMeta(w)+")"))
	}
	var all [][]int
	for from := 0; from < len(text); {
		end := 0
		for _, re := range each {
			at := re.FindStringIndex(text[from:])
			if at != nil && IsBorder(text, from) && IsBorder(text, from+at[1]) {
				end = max(end, from+at[1])
			}
		}
		if end > 0 {
			all, from = append(all, []int{from, end}), end
			continue
		}
		_, n := utf8.DecodeRuneInString(text[from:])
		from += n
	}
	return all
}

func TestWordsAreFoundAsByRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := []string{"a", "b", "A", "k", "K", "\u212a", "s", "\u017f", "ß", "é", "É", " ", "-", "_",
		"1", "日", "ω", "Ω", "\u2126", "\u0301", "\xff"}
	make := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	for range 3000 {
		var words []string
		for range 1 + r.IntN(8) {
			if w := strings.TrimSpace(strings.ToValidUTF8(make(1+r.IntN(4)), "")); w != "" {
				words = append(words, w)
			}
		}
		if len(words) == 0 {
			continue
		}
		text := make(r.IntN(60))
		require.Equal(t, wordsByRegexp(words, text), places(t, NewWords(words), text),
			"%q in %q", words, text)
	}
}

func TestPatternsAreFoundAsByRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"a", "b", "ab", "[ab]", "[^a]", ".", "(?s:.)", `\b`, `\B`, "^", "$", "(?m:^)", "(?m:$)",
		"(a|ab)", "(?:b|ba)?",
		"a*", "b+",
		"a{2,3}", "a*?", "(?:ab|a)+?", "(?:a|ab)(?:c|b*)", "(?i:k)", "é", "[à-ü]", `\d`, `\w+`, " ", "(a(.*b)?)", "日"}
	letters := []string{"a", "b", "a", "b", " ", "\n", "K", "\u212a", "é", "1", "日", "\xff", "_"}
	for range 6000 {
		var pattern, text strings.Builder
		for range 1 + r.IntN(4) {
			pattern.WriteString(parts[r.IntN(len(parts))])
		}
		for range r.IntN(40) {
			text.WriteString(letters[r.IntN(len(letters))])
		}
		re := regexp.MustCompile(pattern.String())
		re.Longest()
		if re.MatchString("") {
			continue // no guardrail has such a pattern
		}
		want := re.FindAllStringIndex(text.String(), -1)
		require.Equal(t, want, places(t, patterns(t, pattern.String()), text.String()),
			"%q in %q", pattern.String(), text.String())
		preferred, err := NewPattern(pattern.String())
		require.NoError(t, err)
		want = regexp.MustCompile(pattern.String()).FindAllStringIndex(text.String(), -1)
		require.Equal(t, want, places(t, preferred, text.String()), "%q in %q, preferred", pattern.String(), text.String())
	}
}

func TestPatternsTogether(t *testing.T) {
	p := patterns(t, `project-\d+`, `\bsecret\b`, `(?i)acme`, `[A-Z]{2}\d{6}`)
	text := "Project project-17 of ACME is a secret, AB123456."
	var got []string
	for _, at := range places(t, p, text) {
		got = append(got, text[at[0]:at[1]])
	}
	require.Equal(t, []string{"project-17", "ACME", "secret", "AB123456"}, got)
	require.Equal(t, [][]int{{0, 3}}, places(t, patterns(t, "ab", "abc"), "abc"), "the longest")
	_, err := NewPatterns([]string{"("})
	require.Error(t, err)
}

// The work does not grow with the number of words, and with that of patterns only where they could begin.
func TestStepsDoNotGrowWithWords(t *testing.T) {
	text := strings.Repeat("lorem ipsum dolor sit amet word00042x ", 1000)
	list := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("word%05d", i))
		}
		return all
	}
	few := steps(t, NewWords(list(100)), text)
	require.LessOrEqual(t, steps(t, NewWords(list(10_000)), text), few+few/2)
	require.LessOrEqual(t, few, int64(8*len(text)))
	require.LessOrEqual(t, steps(t, NewWords(list(100)), text+text), 2*few+few/8, "and in proportion to the text")

	long := strings.Repeat("日", 66)
	hostile := strings.Repeat("日", 10_000)
	require.LessOrEqual(t, steps(t, NewWords([]string{long + "x", long[3:] + "y"}), hostile),
		int64(20*200*len(hostile)/3),
		"no more than the longest word for each character")

	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`[q-z]%d[0-9]+`, i))
	}
	require.LessOrEqual(t, steps(t, patterns(t, many...), strings.Repeat("abc def ", 5000)), int64(20*40_000))
}

func TestWorkIsBoundedAndEndsWithItsContext(t *testing.T) {
	square := patterns(t, `a(?:.*b)?`) // each match looks for a b to the end of the text
	text := strings.Repeat("a", 300_000)
	n := 0
	err := square.Find(t.Context(), NewWork(1<<22), text, func(int, int) { n++ })
	require.ErrorIs(t, err, ErrSpent)
	require.Less(t, n, 100)

	w := NewWork(plenty)
	looks, leave := 0, func() {}
	w.Pause = func(context.Context) error {
		if looks++; looks == 3 {
			leave()
		}
		return nil
	}
	for _, f := range []finds{square, NewWords([]string{"a", "日"})} {
		ctx, cancel := context.WithCancel(t.Context())
		looks, leave = 0, cancel
		err := f.Find(ctx, w, strings.Repeat("日", 300_000)+text, func(int, int) {})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 3, looks, "nothing is looked at after that")
	}
	full := errors.New("full")
	w.Pause = func(context.Context) error { return full }
	require.ErrorIs(t, square.Find(t.Context(), w, text, func(int, int) {}), full)
}

func FuzzPatterns(f *testing.F) {
	f.Add(`a(b|c)+\b`, "abcb acc")
	f.Add(`(?i)straße|[^x]y{2,}`, "STRASSE ayyy")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 100 || len(text) > 200 || re.MatchString("") {
			return
		}
		re.Longest()
		p, err := NewPatterns([]string{pattern})
		require.NoError(t, err)
		require.Equal(t, re.FindAllStringIndex(text, -1), places(t, p, text))
		p, err = NewPattern(pattern)
		require.NoError(t, err)
		require.Equal(t, regexp.MustCompile(pattern).FindAllStringIndex(text, -1), places(t, p, text))
	})
}
