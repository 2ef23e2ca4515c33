package figures

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

const (
	// MaxStack is how many groups a chart tells apart.
	MaxStack = 5
	// MostNamed is how many groups a short table names.
	MostNamed = 10
)

// width returns the width of buckets as the API names it.
func (s Span) width() string {
	return map[time.Duration]string{time.Minute: "1m", 5 * time.Minute: "5m", time.Hour: "1h"}[s.Width]
}

// Series returns the API's query for the span.
func (s Span) Series(by string) adminapi.SeriesQuery {
	return adminapi.SeriesQuery{Start: s.From, End: s.To, Width: cmp.Or(s.width(), "1d"), By: by}
}

// A Table is the groups of a time, the first of them: those with the most errors, then the most expensive.
type Table struct {
	By     string // the field of the groups
	Groups []adminapi.SeriesGroup
	More   int64 // groups that are not in it
}

// TableOf returns the table of the groups of a field. What is broken is in it before what is expensive.
func TableOf(v *page.Visit, r *http.Request, s Span, by string, filters map[string][]string) (Table, error) {
	q := s.Series(by)
	q.Order, q.Groups, q.Filters = "errors", MostNamed, filters
	found, err := v.API.Series(r.Context(), q.Values())
	return Table{By: by, Groups: found.Groups, More: found.GroupsLeftOut}, err
}

// measureOf returns the measure that a chart shows.
func measureOf(t adminapi.Totals, measure string) float64 {
	switch measure {
	case "requests":
		return float64(t.Requests)
	case "cost":
		cost, _ := strconv.ParseFloat(t.CostUSD, 64) // a decimal
		return cost
	case "errors":
		return float64(t.Errors)
	}
	return float64(t.InputTokens + t.OutputTokens)
}

func unitFor(measure string) string {
	if measure == "cost" {
		return "$"
	}
	return ""
}

// Stack draws the groups of a series on one another, and what remains of everything as others.
func Stack(name, measure string, s adminapi.Series, shown Span) Chart {
	c := TimeChart(name, unitFor(measure), shown)
	c.Stacked = true
	rest, errors := make([]float64, len(s.Buckets)), make([]float64, len(s.Buckets))
	for i, b := range s.Buckets {
		rest[i], errors[i] = measureOf(b.Totals, measure), float64(b.Errors)
	}
	drawn := 0
	for _, g := range s.Groups {
		if len(g.Buckets) == 0 {
			continue
		}
		for _, b := range g.Buckets {
			value := measureOf(b.Totals, measure)
			c.Put(drawn, labelOf(g), b.Start, value)
			if measure == "requests" {
				c.PutErrors(drawn, b.Start, float64(b.Errors))
			}
			if n := bucketOf(c.X, b.Start.Unix(), c.End); n >= 0 && n < len(rest) {
				rest[n] -= value
				errors[n] -= float64(b.Errors)
			}
		}
		drawn++
	}
	label := measure
	if drawn > 0 {
		label = "others"
	}
	if drawn == 0 || slices.ContainsFunc(rest, func(v float64) bool { return v > 1e-9 }) {
		for i, b := range s.Buckets {
			c.Put(drawn, label, b.Start, max(rest[i], 0))
			if measure == "requests" {
				c.PutErrors(drawn, b.Start, max(errors[i], 0))
			}
		}
	}
	return c
}

// labelOf names a group for people.
func labelOf(g adminapi.SeriesGroup) string { return cmp.Or(g.DisplayName, g.Name, "none") }

// Compare adds the previous period to a chart.
func (c *Chart) Compare(before *adminapi.Series, measure string) {
	if before == nil {
		return
	}
	values := make([]float64, len(before.Buckets))
	for i, b := range before.Buckets {
		values[i] = measureOf(b.Totals, measure)
	}
	c.before(values)
}

// Before returns what happened in the previous period.
func Before(v *page.Visit, r *http.Request, s Span, filters map[string][]string) (*adminapi.Series, error) {
	q := s.Previous().Series("")
	q.Filters = filters
	before, err := v.API.Series(r.Context(), q.Values())
	return &before, err
}
