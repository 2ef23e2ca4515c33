package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/dashboard/words"
)

// A Chart is what app.js draws, and what the template "chart" writes as a table for whoever does not see it. One over
// time comes from [TimeChart], gets its values from Put, and its comparison from Compare.
type Chart struct {
	// Name is shown and read aloud. It is unique among the charts of a page.
	Name string `json:"name"`
	// X are Unix times in seconds where Time is set, and steps otherwise.
	X      []int64  `json:"x"`
	Series []Series `json:"series"`
	Unit   string   `json:"unit,omitempty"`  // such as ms; "$" goes before
	Label  string   `json:"label,omitempty"` // of X
	Time   bool     `json:"time"`
	Bars   bool     `json:"bars,omitempty"`
	// Stacked bars stand on one another. Those of the first series are at the bottom.
	Stacked bool `json:"stacked,omitempty"`
	// End is where the last bucket ends, and Width how long each is, in seconds. With them a drag over the chart zooms.
	End   int64 `json:"end,omitempty"`
	Width int64 `json:"width,omitempty"`
	// Picks has a click zoom to the bucket that is pointed at.
	Picks bool `json:"picks,omitempty"`
	// Open is set if the last bucket is still under way.
	Open bool `json:"open,omitempty"`
}

// A Series is a line of a chart, or its bars. A nil value is a gap.
type Series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
	// Before marks the previous period. It is a dashed line over the bars or lines.
	Before bool `json:"before,omitempty"`
	// Errors are the parts of the values that are errors. They are red. Nil: nothing is known of them.
	Errors []*float64 `json:"errors,omitempty"`
}

// TimeChart returns a chart of a time without series.
func TimeChart(name, unit string, s Span) Chart {
	c := Chart{Name: name, Unit: unit, Time: true, End: s.To.Unix(), Width: int64(s.Width / time.Second), Open: s.Open}
	for _, at := range s.Buckets() {
		c.X = append(c.X, at.Unix())
	}
	return c
}

// Put adds a value to the bucket of a series that a time is in. It makes the series at the first time, with zeros. A
// time outside of the chart counts nowhere.
func (c *Chart) Put(i int, name string, at time.Time, value float64) {
	for len(c.Series) <= i {
		c.Series = append(c.Series, Series{Values: zeros(len(c.X))})
	}
	c.Series[i].Name = name
	if n := bucketOf(c.X, at.Unix(), c.End); n >= 0 {
		*c.Series[i].Values[n] += value
	}
}

// PutErrors says how many of the values that Put has added to a series are errors.
func (c *Chart) PutErrors(i int, at time.Time, errors float64) {
	if c.Series[i].Errors == nil {
		c.Series[i].Errors = zeros(len(c.X))
	}
	if n := bucketOf(c.X, at.Unix(), c.End); n >= 0 {
		*c.Series[i].Errors[n] += errors
	}
}

// Gap empties the bucket of every series that a time is in: nothing is known of it.
func (c *Chart) Gap(at time.Time) {
	n := bucketOf(c.X, at.Unix(), c.End)
	for _, s := range c.Series {
		if n >= 0 {
			s.Values[n] = nil
		}
	}
}

// before adds the previous period: values by bucket, as many as this chart has.
func (c *Chart) before(values []float64) {
	s := Series{Name: "Previous period", Before: true, Values: zeros(len(c.X))}
	for i := range min(len(values), len(c.X)) {
		*s.Values[i] = values[i]
	}
	c.Series = append(c.Series, s)
}

func zeros(n int) []*float64 {
	values := make([]*float64, n)
	for i := range values {
		values[i] = new(float64)
	}
	return values
}

// bucketOf returns the last of sorted times that is not after at, or -1.
func bucketOf(sorted []int64, at, end int64) int {
	if at >= end {
		return -1
	}
	n, found := slices.BinarySearch(sorted, at)
	if found {
		return n
	}
	return n - 1
}

// ID tells the chart from the others of its page.
func (c Chart) ID() string {
	return "chart-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(c.Name))
}

// A ChartRow is a line of the table of a chart.
type ChartRow struct {
	At    time.Time // where X is time
	Step  int64     // otherwise
	Cells []string
}

// Rows returns the table of the chart, the latest time first. A bucket without any value but zeros is left out, but
// for the latest.
func (c Chart) Rows() []ChartRow {
	var rows []ChartRow
	for i := range c.X {
		row := ChartRow{Step: c.X[i], Cells: make([]string, len(c.Series))}
		if c.Time {
			row.At = time.Unix(c.X[i], 0).UTC()
		}
		some := i == len(c.X)-1
		for k, s := range c.Series {
			if i < len(s.Values) && s.Values[i] != nil {
				row.Cells[k] = c.text(*s.Values[i])
				if s.Errors != nil && *s.Errors[i] != 0 {
					row.Cells[k] += ", " + c.text(*s.Errors[i]) + " errors"
				}
				some = some || *s.Values[i] != 0
			}
		}
		if some {
			rows = append(rows, row)
		}
	}
	if c.Time {
		slices.Reverse(rows)
	}
	return rows
}

// Days reports whether a time of the chart is a day, UTC.
func (c Chart) Days() bool { return c.Width >= 24*60*60 }

// Summary says in a sentence what the chart shows.
func (c Chart) Summary() string {
	var parts []string
	for _, s := range c.Series {
		var highest, sum, errors float64
		for _, v := range s.Values {
			if v != nil {
				highest, sum = max(highest, *v), sum+*v
			}
		}
		text := s.Name + ": highest " + c.text(highest)
		if c.Time && c.Unit != "ms" {
			text = s.Name + ": " + c.text(sum) + " in total, highest " + c.text(highest)
		}
		for _, v := range s.Errors {
			errors += *v
		}
		if errors != 0 {
			text += ", " + c.text(errors) + " errors"
		}
		parts = append(parts, text)
	}
	return cmp.Or(c.Name, "Chart") + ". " + fmt.Sprint(strings.Join(parts, ". ")) + "."
}

// text writes a value with its unit.
func (c Chart) text(v float64) string {
	switch c.Unit {
	case "$":
		return words.Dollars(strconv.FormatFloat(v, 'f', 9, 64))
	case "ms":
		return words.Milliseconds(int64(v))
	case "":
		if v == float64(int64(v)) {
			return words.Number(int64(v))
		}
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'g', 6, 64) + " " + c.Unit)
}
