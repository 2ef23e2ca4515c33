package dashboard

// A chart is what app.js draws.
type chart struct {
	// X are Unix times in seconds where Time is set, and steps otherwise.
	X      []int64  `json:"x"`
	Series []series `json:"series"`
	Unit   string   `json:"unit,omitempty"`  // such as ms; "$" goes before
	Label  string   `json:"label,omitempty"` // of X
	Time   bool     `json:"time"`
	Bars   bool     `json:"bars,omitempty"`
}

// A series is a line of a chart. A nil value is a gap.
type series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"`
}

// add appends a value to a series, which it makes at the first time.
func (c *chart) add(i int, name string, value float64) {
	for len(c.Series) <= i {
		c.Series = append(c.Series, series{})
	}
	c.Series[i].Name = name
	c.Series[i].Values = append(c.Series[i].Values, &value)
}
