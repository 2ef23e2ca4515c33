package guard

import (
	"cmp"
	"context"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	// maxMatches and maxMatched bound what checkers have found and is masked: in number, and in bytes.
	maxMatches = 1000
	maxMatched = 64 << 10
	// shortMatch is how many bytes a text has at least that is masked within words, too.
	shortMatch = 6
)

// A Match is a text that a checker has found for a rule.
type Match struct{ Rule, Category, Text string }

// CanMask reports whether texts have what a checker has found in them, and it is not too much.
func CanMask(texts []string, found []Match) bool {
	size := 0
	for _, m := range found {
		for _, l := range m.literals(texts) {
			if size += len(l); !occurs(l, texts) {
				return false
			}
		}
	}
	return len(found) <= maxMatches && size <= maxMatched
}

// Mask masks the findings of checkers in a request, wherever they occur. Body is the request that was looked at,
// texts are the texts that the checkers have seen, and masks are the earlier masks.
func Mask(ctx context.Context, work *Work, body []byte, masks *Masks, texts []string, found []Match) (Request, error) {
	s := &Set{}
	for _, m := range found {
		for _, l := range m.literals(texts) {
			s.add(m, l)
		}
	}
	return s.request(ctx, work, body, masks, false)
}

// literals returns what is looked for. What goes from one text into the next is in neither as a whole.
func (m *Match) literals(texts []string) []string {
	if occurs(m.Text, texts) {
		return []string{m.Text}
	}
	return strings.Split(m.Text, "\n\n")
}

// add adds a text to the rule of a match.
func (s *Set) add(m Match, literal string) {
	i := slices.IndexFunc(s.rules, func(r *rule) bool { return r.name == m.Rule })
	if i < 0 {
		i = len(s.rules)
		s.rules = append(s.rules, &rule{name: m.Rule, config: &configv1.GuardRule{Mode: configv1.GuardMode_MASK}})
	}
	_, name, _ := strings.Cut(m.Rule, "/")
	r := s.rules[i]
	if !slices.ContainsFunc(r.finds, func(f finder) bool { return f.literal == literal }) {
		r.finds = append(r.finds, finder{literal: literal, kind: kind{label: labelOf(cmp.Or(m.Category, name))}})
	}
}

func occurs(literal string, texts []string) bool {
	return literal != "" && slices.ContainsFunc(texts, func(t string) bool { return nextLiteral(t, literal, 0) >= 0 })
}

// nextLiteral returns where a text has a literal next, or -1. A short one is looked for as a whole word.
func nextLiteral(text, literal string, from int) int {
	for {
		i := strings.Index(text[from:], literal)
		if i < 0 {
			return -1
		}
		at, end := from+i, from+i+len(literal)
		if len(literal) >= shortMatch || standsAlone(text, at, end) {
			return at
		}
		from = at + 1
	}
}
