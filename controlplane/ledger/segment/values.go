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
	texts   []string // or the dictionary
	index   []int32  // into the dictionary; nil: there is none
	ends    []int32  // of lists: where the elements of a row end
}

var errRows = errors.New("it does not have as many rows as its row group")

// emptyValues are those of a column that a file lacks.
func emptyValues(c *column, rows int) *values {
	switch {
	case c.in != nil:
		return &values{ends: make([]int32, rows)}
	case c.text != nil:
		return &values{texts: []string{""}, index: make([]int32, rows)}
	}
	return &values{numbers: make([]int64, rows)}
}

// text returns a text, of a row or of an element.
func (v *values) text(i int) string {
	if v.index != nil {
		return v.texts[v.index[i]]
	}
	return v.texts[i]
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
	n := max(len(v.numbers), len(v.texts))
	if v.index != nil {
		n = len(v.index)
	}
	if c.in != nil {
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
		body, offsets := data.ByteArray()
		v.texts = appendTexts(v.texts, body, offsets)
	case c.flag != nil:
		bits := data.Boolean()
		for i := range int(page.NumValues()) {
			v.numbers = append(v.numbers, int64(bits[i/8]>>(i%8)&1))
		}
	default:
		v.numbers = append(v.numbers, data.Int64()...)
	}
	return nil
}

// appendTexts copies texts, which share memory.
func appendTexts(to []string, body []byte, offsets []uint32) []string {
	if len(offsets) == 0 {
		return to
	}
	first, last := offsets[0], offsets[len(offsets)-1]
	all := string(body[first:last])
	to = slices.Grow(to, len(offsets)-1)
	for i := range len(offsets) - 1 {
		to = append(to, all[offsets[i]-first:offsets[i+1]-first])
	}
	return to
}

func (v *values) addIndexed(index []int32, d parquet.Dictionary, c *column) error {
	for _, i := range index {
		if i < 0 || int(i) >= d.Len() {
			return fmt.Errorf("a value is not in its dictionary of %d", d.Len())
		}
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
		if len(v.texts) > 0 {
			return errors.New("it has a dictionary for some rows only")
		}
		body, offsets := dictionary.ByteArray()
		v.texts = appendTexts(nil, body, offsets)
		v.index = []int32{}
	}
	v.index = append(v.index, index...)
	return nil
}

// addElements adds a page of a list. There are few of them that have elements.
func (v *values) addElements(page parquet.Page, c *column) error {
	var some [256]parquet.Value
	for values := page.Values(); ; {
		n, err := values.ReadValues(some[:])
		for _, x := range some[:n] {
			if x.RepetitionLevel() == 0 {
				v.ends = append(v.ends, int32(v.count()))
			}
			if x.IsNull() || len(v.ends) == 0 {
				continue
			}
			if c.text != nil {
				v.texts = append(v.texts, string(x.ByteArray()))
			} else {
				v.numbers = append(v.numbers, x.Int64())
			}
			v.ends[len(v.ends)-1]++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (v *values) count() int { return max(len(v.numbers), len(v.texts)) }
