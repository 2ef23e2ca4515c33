package segment

import (
	"slices"
	"strconv"
	"strings"
)

// A Condition is one on a row.
type Condition interface {
	// may reports whether a row group may have such a row.
	may(g *GroupSummary) bool
	// match clears what does not meet it.
	match(g *groupReader, keep []bool) error
}

// Equal is the condition that a column has one of some values. Of a list, an element has.
func Equal(c Column, values ...string) Condition { return &textCondition{column: c, values: values} }

// Begins is the condition that a column begins with one of some texts. Of a list, an element does.
func Begins(c Column, prefixes ...string) Condition {
	return &textCondition{column: c, prefixes: prefixes}
}

// Between is the condition that a number is at least and at most so. A flag is 0 or 1.
func Between(c Column, least, most int64) Condition { return &numberCondition{c, least, most} }

// All is the condition that all of some are met.
func All(of ...Condition) Condition { return allOf(of) }

// Any is the condition that one of some is met.
func Any(of ...Condition) Condition { return anyOf(of) }

// Not is the condition that another is not met.
func Not(of Condition) Condition { return notThe{of} }

type textCondition struct {
	column           Column
	values, prefixes []string
}

func (c *textCondition) may(g *GroupSummary) bool {
	s := g.setOf(c.column)
	return s == nil || slices.ContainsFunc(c.values, s.mayHave) || slices.ContainsFunc(c.prefixes, s.mayHavePrefix)
}

// must reports whether all rows of a row group meet it, as far as the summary knows. Lists may be empty.
func (c *textCondition) must(g *GroupSummary) bool {
	s := g.setOf(c.column)
	return s != nil && s.filter == nil && c.column != Guards &&
		!slices.ContainsFunc(s.exact, func(value string) bool { return !c.met(value) })
}

func (c *textCondition) met(s string) bool {
	return slices.Contains(c.values, s) ||
		slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

func (c *textCondition) match(g *groupReader, keep []bool) error {
	v, err := g.column(c.column)
	if err != nil {
		return err
	}
	if v.index == nil {
		v.keep(keep, func(i int) bool { return c.met(v.texts.at(i)) })
		return nil
	}
	met, some := make([]bool, v.texts.len()), false
	for i := range met {
		met[i] = c.met(v.texts.at(i))
		some = some || met[i]
	}
	if !some {
		clear(keep)
		return nil
	}
	v.keep(keep, func(i int) bool { return met[v.index[i]] })
	return nil
}

// keep clears rows of which no element is met.
func (v *values) keep(keep []bool, met func(i int) bool) {
	for row, wanted := range keep {
		if !wanted {
			continue
		}
		found := false
		for from, to := v.elements(row); from < to && !found; from++ {
			found = met(from)
		}
		keep[row] = found
	}
}

type numberCondition struct {
	column      Column
	least, most int64
}

func (c *numberCondition) may(g *GroupSummary) bool {
	x := g.spanOf(c.column)
	if x.most < c.least || x.least > c.most {
		return false
	}
	s := g.setOf(c.column)
	return s == nil || c.least != c.most || s.mayHave(strconv.FormatInt(c.least, 10))
}

func (c *numberCondition) match(g *groupReader, keep []bool) error {
	v, err := g.column(c.column)
	if err != nil {
		return err
	}
	v.keep(keep, func(i int) bool { return v.numbers[i] >= c.least && v.numbers[i] <= c.most })
	return nil
}

type allOf []Condition

func (all allOf) may(g *GroupSummary) bool {
	return !slices.ContainsFunc(all, func(c Condition) bool { return !c.may(g) })
}

func (all allOf) match(g *groupReader, keep []bool) error {
	for _, c := range all {
		if err := c.match(g, keep); err != nil || !slices.Contains(keep, true) {
			return err
		}
	}
	return nil
}

type anyOf []Condition

func (some anyOf) may(g *GroupSummary) bool {
	return slices.ContainsFunc(some, func(c Condition) bool { return c.may(g) })
}

func (some anyOf) match(g *groupReader, keep []bool) error {
	found, one := make([]bool, len(keep)), make([]bool, len(keep))
	for _, c := range some {
		if !c.may(g.summary) {
			continue
		}
		copy(one, keep)
		if err := c.match(g, one); err != nil {
			return err
		}
		for i, met := range one {
			found[i] = found[i] || met
		}
	}
	copy(keep, found)
	return nil
}

type notThe struct{ of Condition }

func (not notThe) may(g *GroupSummary) bool {
	c, ok := not.of.(*textCondition)
	return !ok || !c.must(g)
}

func (not notThe) match(g *groupReader, keep []bool) error {
	met := slices.Clone(keep)
	if err := not.of.match(g, met); err != nil {
		return err
	}
	for i := range keep {
		keep[i] = keep[i] && !met[i]
	}
	return nil
}
