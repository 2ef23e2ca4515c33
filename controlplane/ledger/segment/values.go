package segment

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// Values are those of a column in a row group. Texts of few values are in a dictionary, and flags are numbers.
type values struct {
	numbers []int64
	texts   strs    // or the dictionary
	index   []int32 // into the dictionary; nil: there is none
	ends    []int32 // of lists: where the elements of a row end
}

// Strs are texts in one piece of memory.
type strs struct {
	body string
	ends []uint32
}

func (s *strs) len() int { return len(s.ends) }

func (s *strs) at(i int) string {
	from := uint32(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	return s.body[from:s.ends[i]]
}

// add adds texts of a page. Most columns have one.
func (s *strs) add(body []byte, offsets []uint32) {
	if len(offsets) == 0 {
		return
	}
	first, last := offsets[0], offsets[len(offsets)-1]
	shift := uint32(len(s.body)) - first
	s.body += string(body[first:last])
	s.ends = slices.Grow(s.ends, len(offsets)-1)
	for _, end := range offsets[1:] {
		s.ends = append(s.ends, end+shift)
	}
}

var errRows = errors.New("it does not have as many rows as its row group")

// emptyValues are those of a column that a file lacks.
func emptyValues(c *column, rows int) *values {
	switch {
	case c.in != nil:
		return &values{ends: make([]int32, rows)}
	case c.text != nil:
		return &values{texts: strs{ends: []uint32{0}}, index: make([]int32, rows)}
	}
	return &values{numbers: make([]int64, rows)}
}

// text returns a text, of a row or of an element.
func (v *values) text(i int) string {
	if v.index != nil {
		i = int(v.index[i])
	}
	return v.texts.at(i)
}

// elements returns which elements a row has. A column that is of no list has one.
func (v *values) elements(row int) (from, to int) {
	if v.ends == nil {
		return row, row + 1
	}
	if row > 0 {
		from = int(v.ends[row-1])
	}
	return from, int(v.ends[row])
}

// fill sets a row's member.
func (v *values) fill(c *column, r *Row, row int) {
	from, to := v.elements(row)
	if c.in != nil && c.in.length(r) != to-from {
		c.in.resize(r, to-from)
	}
	for i := range to - from {
		switch {
		case c.text != nil:
			*c.text(r, i) = v.text(from + i)
		case c.flag != nil:
			*c.flag(r, i) = v.numbers[from+i] != 0
		default:
			*c.number(r, i) = v.numbers[from+i]
		}
	}
}

// read reads a chunk that has so many rows.
func read(pages parquet.Pages, c *column, rows int) (*values, error) {
	v := &values{}
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return v, v.complete(c, rows)
		}
		if err != nil {
			return nil, err
		}
		if c.in != nil {
			err = v.addElements(page, c)
		} else {
			err = v.add(page, c)
		}
		parquet.Release(page)
		if err != nil {
			return nil, err
		}
	}
}

// complete reports whether there is a value for each row.
func (v *values) complete(c *column, rows int) error {
	n := v.count()
	if v.index != nil {
		n = len(v.index)
	}
	if c.in != nil {
		if n != v.ended() {
			return errRows
		}
		n = len(v.ends)
	}
	if n != rows {
		return errRows
	}
	return nil
}

// add adds a page of a column that is of no list.
func (v *values) add(page parquet.Page, c *column) error {
	data := page.Data()
	if d := page.Dictionary(); d != nil {
		return v.addIndexed(data.Int32(), d, c)
	}
	switch {
	case c.text != nil:
		if v.index != nil {
			return errors.New("it has a dictionary for some rows only")
		}
		v.texts.add(data.ByteArray())
	case c.flag != nil:
		bits := data.Boolean()
		for i := range int(page.NumValues() - page.NumNulls()) {
			v.numbers = append(v.numbers, int64(bits[i/8]>>(i%8)&1))
		}
	default:
		v.numbers = append(v.numbers, data.Int64()...)
	}
	return nil
}

func (v *values) addIndexed(index []int32, d parquet.Dictionary, c *column) error {
	if len(index) > 0 && (slices.Min(index) < 0 || int(slices.Max(index)) >= d.Len()) {
		return fmt.Errorf("a value is not in its dictionary of %d", d.Len())
	}
	dictionary := d.Page().Data()
	if c.text == nil {
		if dictionary.Kind() != encoding.Int64 {
			return errors.New("its dictionary has another type")
		}
		all := dictionary.Int64()
		v.numbers = slices.Grow(v.numbers, len(index))
		for _, i := range index {
			v.numbers = append(v.numbers, all[i])
		}
		return nil
	}
	if v.index == nil {
		if v.texts.len() > 0 {
			return errors.New("it has a dictionary for some rows only")
		}
		v.texts.add(dictionary.ByteArray())
		v.index = make([]int32, 0, len(index)) // most columns have one page
	}
	v.index = append(v.index, index...)
	return nil
}

// addElements adds a page of a list. Its levels say where the elements of a row are.
func (v *values) addElements(page parquet.Page, c *column) error {
	defined, at := page.DefinitionLevels(), int32(v.ended())
	for i, level := range page.RepetitionLevels() {
		if level == 0 {
			v.ends = append(v.ends, at)
		}
		if len(v.ends) == 0 || i >= len(defined) {
			return errRows
		}
		if defined[i] > 0 {
			at++
			v.ends[len(v.ends)-1] = at
		}
	}
	return v.add(page, c)
}

// ended returns how many elements the rows have that were read.
func (v *values) ended() int {
	if len(v.ends) == 0 {
		return 0
	}
	return int(v.ends[len(v.ends)-1])
}

func (v *values) count() int { return max(len(v.numbers), v.texts.len()) }
