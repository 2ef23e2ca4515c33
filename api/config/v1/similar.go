package configv1

import "strings"

// minSimilar is the minimum length of a word, in bytes, for a suggestion.
const minSimilar = 3

// didYouMean returns "; did you mean X?" for the word most like a written one, or "" if none is like it. Case, "_" and
// "-" do not count. A third of the letters may differ.
func didYouMean(written string, words []string) string {
	plain := strings.NewReplacer("_", "", "-", "")
	letters := func(s string) string { return plain.Replace(strings.ToLower(s)) }
	wrong := letters(written)
	if len(wrong) < minSimilar || len(wrong) > maxName {
		return ""
	}
	best, least := "", len(wrong)/3+1
	for _, word := range words {
		if n := edits(wrong, letters(word)); n < least {
			best, least = word, n
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// edits returns how many letters have to be added, removed, replaced or swapped with the next one to make b of a: the
// optimal string alignment distance.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
