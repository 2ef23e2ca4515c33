package guard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	// viewed is how much of a text is viewed at once, in bytes: a view takes many times the memory of its text.
	viewed = 64 << 10
	// the text before and behind a match that is viewed with it
	before, behind = 128, 4 << 10
	// longestEscape is the length of the longest escape, in bytes, but for the backslashes of several layers.
	longestEscape = len(`\u{10FFFF}`)
)

// found returns the matches of the rules in a text on one side, as it is written and as its reader sees it, from
// left to right, without overlaps. The error comes from ctx or work, or is an *Unjudged.
func (s *Set) found(ctx context.Context, w *Work, text string, side configv1.GuardSide) ([]span, error) {
	all, err := s.spans(ctx, w, text, side)
	if err != nil {
		return nil, err
	}
	differs := false
	for from := 0; from < len(text); from += viewed {
		first, to := from, min(len(text), from+viewed)
		if from > 0 {
			first = runeStart(text, from-before)
		}
		v, is := plain(text[first:runeStart(text, min(len(text), to+behind))])
		if !is {
			continue
		}
		differs = true
		more, err := s.spans(ctx, w, v.text, side)
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			f.from, f.to = first+v.at[f.from], first+v.end(f.to, text[first:])
			if f.from >= from && f.from < to {
				all = append(all, f)
			}
		}
	}
	if !differs || len(all) == 0 {
		return all, nil
	}
	for i := range all {
		all[i].from = afterEscape(text, all[i].from)
	}
	return joined(slices.DeleteFunc(all, func(f span) bool { return f.from >= f.to })), nil
}

// runeStart returns the first place up to at where a character begins.
func runeStart(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// end returns where in the text ends what ends at a place of the view. What is not seen behind it stays.
func (v *view) end(to int, text string) int {
	last := v.at[to-1]
	return min(v.at[to], last+unitLength(text[last:]))
}

// unitLength is how many bytes a text begins with that are one character of its view.
func unitLength(text string) int {
	if text != "" && (text[0] == '&' || text[0] == '%') {
		if _, n := reference(text); n > 0 {
			return n
		}
	}
	n := 0
	for n < len(text) && text[n] == '\\' { // of several layers of escapes
		n++
	}
	if n > 0 && len(text) > n+1 && text[n] == 'u' && text[n+1] == '{' {
		if size := strings.IndexByte(text[n:min(len(text), n+9)], '}'); size > 0 {
			return n + size + 1
		}
	}
	if n > 0 && len(text) >= n+5 && text[n] == 'u' {
		return n + 5
	}
	if n > 0 && n < len(text) && text[n] == 'x' && hexByte(text[n+1:]) >= 0 {
		return n + 3
	}
	_, size := utf8.DecodeRuneInString(text[n:])
	return n + size
}

// joined puts overlapping findings together. The stricter mode decides, then the longer one.
func joined(all []span) []span {
	slices.SortStableFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	kept := all[:0]
	for _, f := range all {
		if n := len(kept); n > 0 && f.from < kept[n-1].to {
			last := &kept[n-1]
			if mode, than := f.rule.config.GetMode(), last.rule.config.GetMode(); mode > than ||
				mode == than && f.to-f.from > last.to-last.from {
				last.rule, last.label = f.rule, f.label
			}
			last.to = max(last.to, f.to)
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// afterEscape returns the first place from at on that is not within an escape.
func afterEscape(text string, at int) int {
	for i := at - 1; i >= 0 && i > at-longestEscape; i-- {
		if text[i] != '\\' {
			continue
		}
		first := i
		for first > 0 && text[first-1] == '\\' {
			first--
		}
		if _, n := escaped(text[i:]); (i-first)%2 == 0 && i+n > at {
			return i + n
		}
		return at
	}
	return at
}
