package scan

import (
	"context"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words are words that are found in any case, between borders of words. They are immutable. They take about twice the
// memory of their texts.
type Words struct {
	list  []string   // in one case, sorted, without duplicates
	first [256]block // of the words that begin with a byte
}

// A block is a part of the list.
type block struct{ from, to int }

// NewWords returns words. None may be empty.
func NewWords(all []string) *Words {
	w := &Words{list: make([]string, 0, len(all))}
	for _, text := range all {
		w.list = append(w.list, fold(text))
	}
	slices.Sort(w.list)
	w.list = slices.Compact(w.list)
	for i, x := range w.list {
		b := &w.first[x[0]]
		if b.to == 0 {
			b.from = i
		}
		b.to = i + 1
	}
	return w
}

// Find calls found with the places of words from left to right. They do not overlap. Of words that begin at the same
// place it is the longest.
func (w *Words) Find(ctx context.Context, work *Work, text string, found func(from, to int)) error {
	steps := 0
	for i := 0; i < len(text); {
		if steps++; steps >= 1<<12 {
			if err := work.Spend(ctx, steps); err != nil {
				return err
			}
			steps = 0
		}
		c, width := text[i], 1
		if c >= utf8.RuneSelf {
			var folded [utf8.UTFMax]byte
			var r rune
			r, width = utf8.DecodeRuneInString(text[i:])
			utf8.EncodeRune(folded[:], foldRune(r))
			c = folded[0]
		} else {
			c = lower(c)
		}
		if b := &w.first[c]; b.from < b.to && IsBorder(text, i) {
			to, read := w.longest(*b, text, i)
			if steps += read; to > 0 {
				found(i, to)
				width = to - i
			}
		}
		i += width
	}
	return work.Spend(ctx, steps)
}

// longest returns the end of the longest word of a block that begins at a place, or 0, and the steps that it took.
func (w *Words) longest(b block, text string, from int) (to, steps int) {
	var buffer [utf8.UTFMax]byte
	depth := 0
	for at := from; at < len(text) && b.from < b.to; {
		folded, width := buffer[:1], 1
		if c := text[at]; c < utf8.RuneSelf {
			folded[0] = lower(c)
		} else {
			var r rune
			r, width = utf8.DecodeRuneInString(text[at:])
			folded = buffer[:utf8.EncodeRune(buffer[:], foldRune(r))]
		}
		for _, c := range folded {
			b = w.narrow(b, depth, c)
			depth, steps = depth+1, steps+4
		}
		at += width
		if b.from < b.to && len(w.list[b.from]) == depth {
			if IsBorder(text, at) {
				to = at
			}
			b.from++
		}
	}
	return to, steps
}

// narrow returns the words of a block that have a byte at a depth. All have more bytes than that.
func (w *Words) narrow(b block, depth int, c byte) block {
	list := w.list[b.from:b.to]
	if len(list) == 0 {
		return b
	}
	if list[0][depth] == c && list[len(list)-1][depth] == c {
		return b
	}
	from := sort.Search(len(list), func(i int) bool { return list[i][depth] >= c })
	n := sort.Search(len(list)-from, func(i int) bool { return list[from+i][depth] > c })
	return block{b.from + from, b.from + from + n}
}

// fold returns a text as all texts that differ from it only in their case.
func fold(text string) string { return strings.Map(foldRune, text) }

func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(lower(byte(r)))
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	if least < utf8.RuneSelf { // the sign of Kelvin is a K
		return rune(lower(byte(least)))
	}
	return least
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
