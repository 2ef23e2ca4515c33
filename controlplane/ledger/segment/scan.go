package segment

import (
	"errors"
	"fmt"
	"slices"
)

// stale is the error of a segment that is not the one of its summary.
func (f *File) stale() error {
	return fmt.Errorf("segment %s: %w", f.name, errors.New("it is not the one that was summed up"))
}

// Rows returns the rows of a row group, in their order.
func (f *File) Rows(group int) ([]Row, error) {
	rows := make([]Row, f.file.RowGroups()[group].NumRows())
	for i := range f.schema.columns {
		c := &f.schema.columns[i]
		v, err := f.load(group, c)
		if err != nil {
			return nil, err
		}
		for k := range rows {
			v.fill(c, &rows[k], k)
		}
	}
	return rows, nil
}

// A Part has the rows of a row group that are wanted, by columns.
type Part struct {
	// Rows are the indexes of the rows, in their order.
	Rows   []int
	reader *groupReader
}

// First returns the index of the row group's first row in its segment.
func (p *Part) First() int { return p.reader.group * GroupRows }

// Numbers returns the values of a column of numbers for all rows of the row group. Flags are 0 or 1.
func (p *Part) Numbers(c Column) ([]int64, error) {
	v, err := p.reader.column(c)
	if err != nil {
		return nil, err
	}
	return v.numbers, nil
}

// Texts are the values of a column of texts.
type Texts struct{ of *values }

// At returns the text of a row.
func (t Texts) At(row int) string { return t.of.text(row) }

// Of returns the texts of a row's list.
func (t Texts) Of(row int) []string {
	from, to := t.of.elements(row)
	all := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		all = append(all, t.of.text(i))
	}
	return all
}

// Texts returns the values of a column of texts.
func (p *Part) Texts(c Column) (Texts, error) {
	v, err := p.reader.column(c)
	return Texts{v}, err
}

// Scan calls f with the rows that a query wants, those of a row group at once, newest first. It has no page: a limit,
// what a page comes after, and columns mean nothing to it.
func Scan(segments []Segment, q Query, f func(*Part) error) error {
	q.AfterAt, q.AfterID = 0, ""
	for _, p := range places(segments, &q) {
		g, err := p.read()
		if err != nil {
			return err
		}
		keep, err := g.rows(&q)
		if err != nil {
			return err
		}
		part := &Part{reader: g}
		for row, wanted := range keep {
			if wanted {
				part.Rows = append(part.Rows, row)
			}
		}
		if len(part.Rows) == 0 {
			continue
		}
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// Each calls f with each row, which has the values of some columns. The row is valid until f returns.
func (p *Part) Each(columns []Column, f func(*Row)) error {
	s := p.reader.file.schema
	var row Row
	var loaded []*values
	var of []*column
	for i := range s.columns {
		c := &s.columns[i]
		if !slices.Contains(columns, c.id) && (c.in == nil || !slices.Contains(columns, c.in.id)) {
			continue
		}
		v, err := p.reader.column(c.id)
		if err != nil {
			return err
		}
		loaded, of = append(loaded, v), append(of, c)
	}
	for _, i := range p.Rows {
		for k, v := range loaded {
			v.fill(of[k], &row, i)
		}
		f(&row)
	}
	return nil
}
