package guard

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestWhatCheckersFindIsMasked(t *testing.T) {
	person := func(text string) Match { return Match{Rule: "g/names", Category: "person", Text: text} }
	for name, c := range map[string]struct {
		text  string
		found []Match
		want  string
		count int
	}{
		"wherever it occurs": {"Ann Miller, AnnAnn Miller", []Match{person("Ann Miller")},
			"[PERSON_1], Ann[PERSON_1]", 2},
		"a short one as a word": {"Ann and Annabel, (Ann) Joann", []Match{person("Ann")},
			"[PERSON_1] and Annabel, ([PERSON_1]) Joann", 2},
		"without words": {"李雷和韩梅梅", []Match{person("韩梅")}, "李雷和[PERSON_1]梅", 1},
		"the longer one of two": {"Ann Miller", []Match{person("Ann"), person("Ann Miller"), person("Miller")},
			"[PERSON_1]", 1},
		"each by its own": {"Ann, Bob, Ann", []Match{person("Ann"), person("Bob"), person("Ann")},
			"[PERSON_1], [PERSON_2], [PERSON_1]", 3},
		"with what is masked already": {"Ann a@b.de", []Match{person("Ann [EMAIL_1]")}, "[PERSON_1]", 1},
		"but nothing within placeholders": {"EMAIL a@b.de 1", []Match{person("EMAIL"), person("EMAIL_1"), person("1")},
			"[PERSON_1] [EMAIL_1] [PERSON_2]", 2},
		"nor over the end of one":      {"a@b.de x", []Match{person("] x")}, "[EMAIL_1] x", 0},
		"without a category":           {"Ann", []Match{{Rule: "g/first-names", Text: "Ann"}}, "[FIRST_NAMES_1]", 1},
		"of an odd category":           {"Ann", []Match{{Rule: "g/r", Category: "pii: [größe]", Text: "Ann"}}, "[PII___GR__E__1]", 1},
		"with signs that JSON escapes": {`the "x\y" file`, []Match{person(`"x\y"`)}, "the [PERSON_1] file", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, finds(mask, configv1.SensitiveData_EMAIL), judgedBy("c"))
			quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(c.text)
			first := ask(t, s, `{"messages":[{"role":"user","content":"`+quoted+`"}]}`)
			require.True(t, CanMask(first.Texts, c.found))
			r, err := Mask(t.Context(), NewWork(), first.Body, first.Masks, first.Texts, c.found)
			require.NoError(t, err)
			require.Equal(t, `{"messages":[{"role":"user","content":"`+c.want+`"}]}`, string(r.Body))
			require.Equal(t, c.text, r.Masks.restore(c.want, nil))
			require.Equal(t, c.count, r.Findings[Finding{c.found[0].Rule, "mask", SideRequest}])
		})
	}
}

func TestMatchesInArgumentsAndOfTwoTexts(t *testing.T) {
	s := set(t, judgedBy("c"))
	first := ask(t, s, `{"messages":[{"content":"I am Ann"},{"content":"Miller"},{"tool_calls":[{"function":{"arguments":"{\"to\":\"Ann\"}"}}]}]}`)
	found := []Match{{Rule: "g/r0", Category: "P", Text: "Ann\n\nMiller"}}
	require.True(t, CanMask(first.Texts, found))
	r, err := Mask(t.Context(), NewWork(), first.Body, first.Masks, first.Texts, found)
	require.NoError(t, err)
	require.JSONEq(t, `{"messages":[{"content":"I am [P_1]"},{"content":"[P_2]"},{"tool_calls":[{"function":{"arguments":"{\"to\":\"[P_1]\"}"}}]}]}`,
		string(r.Body))
}

func TestWhatCannotBeMasked(t *testing.T) {
	texts := []string{"Annabel", "Bob Miller"}
	for name, found := range map[string][]Match{
		"a text that is not there":      {{Text: "Carol Smith"}},
		"a part of a word":              {{Text: "Ann"}},
		"no text":                       {{}},
		"one that is not there, of two": {{Text: "Bob"}, {Text: "bob miller"}},
		"too many":                      slices.Repeat([]Match{{Text: "Bob"}}, maxMatches+1),
		"too much":                      slices.Repeat([]Match{{Text: strings.Repeat("x", 200)}}, 400),
	} {
		require.False(t, CanMask(append(texts, strings.Repeat("x", 200)), found), name)
	}
}
