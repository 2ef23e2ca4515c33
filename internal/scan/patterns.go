package scan

import (
	"context"
	"fmt"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Patterns are regular expressions in RE2's syntax, which are looked for together. They are immutable.
type Patterns struct {
	program  []syntax.Inst // of all
	patterns []pattern
	first    [256][]int // the patterns that may begin with a byte
	empty    []int      // those that may match nothing
	borders  bool       // some look at what is around
	prefers  bool       // a match is the pattern's preferred one, rather than the longest
	machines sync.Pool
}

type pattern struct {
	start uint32
	needs string // that is in each match; empty: it is not known
}

// NewPattern returns one regular expression with the matches of package regexp: the preferred ones, rather than the
// longest.
func NewPattern(text string) (*Patterns, error) {
	p, err := NewPatterns([]string{text})
	if err == nil {
		p.prefers = true
	}
	return p, err
}

// NewPatterns returns regular expressions.
func NewPatterns(all []string) (*Patterns, error) {
	p := &Patterns{}
	for _, text := range all {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		needs := needed(parsed)
		compiled, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil, fmt.Errorf("compiling %q: %w", text, err)
		}
		offset := uint32(len(p.program))
		for _, inst := range compiled.Inst {
			inst.Out += offset
			if inst.Op == syntax.InstAlt || inst.Op == syntax.InstAltMatch {
				inst.Arg += offset
			}
			p.borders = p.borders || inst.Op == syntax.InstEmptyWidth
			p.program = append(p.program, inst)
		}
		p.patterns = append(p.patterns, pattern{uint32(compiled.Start) + offset, needs})
		p.begin(len(p.patterns) - 1)
	}
	p.machines.New = func() any { return newMachine(p) }
	return p, nil
}

// Steps returns the size of the program.
func (p *Patterns) Steps() int { return len(p.program) }

// needed returns the longest text that is in each match, as far as it is easy to see.
func needed(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needed(re.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if s := needed(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
}

// begin notes the bytes that a pattern may begin with.
func (p *Patterns) begin(n int) {
	var bytes [256]bool
	mark := func(from, to rune) {
		for r := from; r <= min(to, utf8.RuneSelf-1); r++ {
			bytes[r] = true
		}
		for c := utf8.RuneSelf; to >= utf8.RuneSelf && c < 256; c++ {
			bytes[c] = true
		}
	}
	seen := map[uint32]bool{}
	for left := []uint32{p.patterns[n].start}; len(left) > 0; {
		at := left[len(left)-1]
		if left = left[:len(left)-1]; seen[at] {
			continue
		}
		seen[at] = true
		switch inst := &p.program[at]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			left = append(left, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			left = append(left, inst.Out)
		case syntax.InstMatch:
			p.empty = append(p.empty, n)
			mark(0, unicode.MaxRune)
		case syntax.InstRune1, syntax.InstRune:
			markRunes(inst, mark)
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			mark(0, unicode.MaxRune)
		}
	}
	for c, is := range bytes {
		if is {
			p.first[c] = append(p.first[c], n)
		}
	}
}

// markRunes marks the characters of an instruction.
func markRunes(inst *syntax.Inst, mark func(from, to rune)) {
	if len(inst.Rune) == 1 {
		r := inst.Rune[0]
		mark(r, r)
		if inst.Op == syntax.InstRune && syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				mark(f, f)
			}
		}
		return
	}
	for i := 0; i+1 < len(inst.Rune); i += 2 {
		mark(inst.Rune[i], inst.Rune[i+1])
	}
}

// Find calls found with the places of matches from left to right. They do not overlap. Of matches that begin at the
// same place it is the longest.
func (p *Patterns) Find(ctx context.Context, work *Work, text string, found func(from, to int)) error {
	m, _ := p.machines.Get().(*machine)
	defer p.machines.Put(m)
	off := 0
	for i := range p.patterns {
		needs := p.patterns[i].needs
		if m.off[i] = needs != "" && !strings.Contains(text, needs); m.off[i] {
			off++
		}
		if err := work.Spend(ctx, 1+len(text)/64); err != nil {
			return err
		}
	}
	if off == len(p.patterns) {
		return nil
	}
	m.work, m.text = work, text
	defer func() { m.work, m.text = nil, "" }()
	last := -1 // the end of the last match
	for at := 0; at <= len(text); {
		from, to, err := m.next(ctx, at)
		switch {
		case err != nil:
			return err
		case from < 0:
			return nil
		}
		if from < to || from != last {
			found(from, to)
		}
		last = to
		if at = to; from == to {
			_, width := utf8.DecodeRuneInString(text[to:])
			at = to + max(width, 1)
		}
	}
	return nil
}
