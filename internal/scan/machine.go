package scan

import (
	"context"
	"regexp/syntax"
	"unicode/utf8"
)

// A machine runs the program of patterns over a text, with all its threads side by side (Pike's method). Its steps are
// the instructions that it visits.
type machine struct {
	*Patterns

	off   []bool // patterns that cannot be in the text
	work  *Work
	text  string
	steps int

	now, then threads
	left      []uint32 // instructions to visit
	from, to  int      // the best match; from is -1 if there is none
}

// threads are a set of instructions, each with the place at which its match begins. Earlier ones come first.
type threads struct {
	index []uint32 // into list, by instruction
	list  []thread
}

type thread struct {
	at   uint32
	from int
}

func newMachine(p *Patterns) *machine {
	n := len(p.program)
	return &machine{Patterns: p, off: make([]bool, len(p.patterns)), now: threads{index: make([]uint32, n)},
		then: threads{index: make([]uint32, n)}}
}

func (t *threads) has(at uint32) bool {
	i := t.index[at]
	return int(i) < len(t.list) && t.list[i].at == at
}

func (t *threads) add(at uint32, from int) {
	t.index[at] = uint32(len(t.list))
	t.list = append(t.list, thread{at, from})
}

// next returns the first match from a place on, or -1. It is the longest match that begins there.
func (m *machine) next(ctx context.Context, at int) (from, to int, err error) {
	m.from, m.to = -1, -1
	m.now.list, m.then.list = m.now.list[:0], m.then.list[:0]
	flags := m.flags(at)
	for {
		if len(m.now.list) == 0 {
			if m.from >= 0 {
				break
			}
			skipped := m.skip(at)
			if m.steps += (skipped - at) / 8; skipped > at {
				at, flags = skipped, m.flags(skipped)
			}
		}
		if m.steps++; m.steps >= 1<<12 {
			if err := m.work.Spend(ctx, m.steps); err != nil {
				m.steps = 0
				return -1, -1, err
			}
			m.steps = 0
		}
		if m.from < 0 {
			m.begin(at, flags)
		}
		if m.prefers {
			m.prefer(at)
		}
		if at == len(m.text) {
			break
		}
		r, width := rune(m.text[at]), 1
		if r >= utf8.RuneSelf {
			r, width = utf8.DecodeRuneInString(m.text[at:])
		}
		at += width
		flags = m.flags(at)
		m.step(r, at, flags)
	}
	err = m.work.Spend(ctx, m.steps)
	m.steps = 0
	return m.from, m.to, err
}

// skip returns the next place at which a match may begin.
func (m *machine) skip(at int) int {
	if len(m.empty) > 0 {
		return at
	}
	for at < len(m.text) && len(m.first[m.text[at]]) == 0 {
		at++
	}
	return at
}

// flags returns what is around a place, if a pattern looks at it.
func (m *machine) flags(at int) syntax.EmptyOp {
	if !m.borders {
		return 0
	}
	before, after := rune(-1), rune(-1)
	if at > 0 {
		if before = rune(m.text[at-1]); before >= utf8.RuneSelf {
			before, _ = utf8.DecodeLastRuneInString(m.text[:at])
		}
	}
	if at < len(m.text) {
		if after = rune(m.text[at]); after >= utf8.RuneSelf {
			after, _ = utf8.DecodeRuneInString(m.text[at:])
		}
	}
	return syntax.EmptyOpContext(before, after)
}

// begin adds the threads of the patterns that may begin at a place.
func (m *machine) begin(at int, flags syntax.EmptyOp) {
	starts := m.empty
	if at < len(m.text) {
		starts = m.first[m.text[at]]
	}
	for _, n := range starts {
		if !m.off[n] {
			m.add(&m.now, m.patterns[n].start, at, at, flags)
		}
	}
}

// prefer notes the match that ends here, and ends the threads that the pattern likes less. The best come first.
func (m *machine) prefer(here int) {
	for i, t := range m.now.list {
		if m.program[t.at].Op == syntax.InstMatch {
			m.from, m.to = t.from, here
			m.now.list = m.now.list[:i]
			return
		}
	}
}

// step has all threads read a character.
func (m *machine) step(r rune, after int, flags syntax.EmptyOp) {
	m.steps += len(m.now.list)
	for _, t := range m.now.list {
		if m.from >= 0 && t.from > m.from {
			break // it begins later than a match
		}
		inst, reads := &m.program[t.at], false
		switch inst.Op {
		case syntax.InstRune1:
			reads = inst.Rune[0] == r
		case syntax.InstRune:
			reads = inst.MatchRune(r)
		case syntax.InstRuneAny:
			reads = true
		case syntax.InstRuneAnyNotNL:
			reads = r != '\n'
		}
		if reads {
			m.add(&m.then, inst.Out, t.from, after, flags)
		}
	}
	m.now, m.then = m.then, m.now
	m.then.list = m.then.list[:0]
}

// add adds an instruction to a set, and the instructions that follow it without reading. It notes a match that
// ends here.
func (m *machine) add(set *threads, first uint32, from, here int, flags syntax.EmptyOp) {
	m.left = append(m.left[:0], first)
	for len(m.left) > 0 {
		at := m.left[len(m.left)-1]
		m.left = m.left[:len(m.left)-1]
		if set.has(at) {
			continue
		}
		m.steps++
		inst := &m.program[at]
		set.add(at, from)
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.left = append(m.left, inst.Arg, inst.Out)
		case syntax.InstCapture, syntax.InstNop:
			m.left = append(m.left, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 {
				m.left = append(m.left, inst.Out)
			}
		case syntax.InstMatch:
			if m.prefers {
				break
			}
			if m.from < 0 || from < m.from || from == m.from && here > m.to {
				m.from, m.to = from, here
			}
		}
	}
}
