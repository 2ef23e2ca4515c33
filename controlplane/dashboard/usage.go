package dashboard

import (
	"cmp"
	"encoding/csv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// A usageQuery is what somebody wants to know.
type usageQuery struct {
	Span        span
	By, Measure string
	// Filters are values by field.
	Filters map[string][]string
}

// A choice is one of several, with its name.
type choice struct{ Value, Name string }

func usageGroups() []choice {
	return []choice{{"", "nothing"}, {"model", "model"}, {"key", "key"}, {"organization", "organization"},
		{"project", "project"}, {"provider", "provider"}, {"user", "user"}}
}

func usageMeasures() []choice {
	return []choice{{"tokens", "tokens"}, {"requests", "requests"}, {"cost", "cost"}}
}

// usageFields are the fields by which usage is chosen and grouped, and their names in addresses of earlier versions.
func usageFields() [][3]string {
	return [][3]string{{"model", "models", "model"}, {"key", "api_key_ids", "api_key_id"}, {"organization"},
		{"project", "project_ids", "project_id"}, {"provider"}, {"user", "user_ids", "user_id"}}
}

func (v *visit) usageQuery(r *http.Request) usageQuery {
	q := r.URL.Query()
	u := usageQuery{Span: v.span(r), By: q.Get("by"), Measure: q.Get("measure"), Filters: map[string][]string{}}
	for _, field := range usageFields() {
		if list := listOf(cmp.Or(q.Get(field[0]), q.Get(field[1]))); len(list) > 0 {
			u.Filters[field[0]] = list
		}
		if u.By != "" && u.By == field[2] {
			u.By = field[0]
		}
	}
	has := func(value string) func(choice) bool { return func(c choice) bool { return c.Value == value } }
	if !slices.ContainsFunc(usageGroups(), has(u.By)) {
		u.By = ""
	}
	if !slices.ContainsFunc(usageMeasures(), has(u.Measure)) {
		u.Measure = "tokens"
	}
	return u
}

// width returns the width of buckets as the API names it.
func (s span) width() string {
	return map[time.Duration]string{time.Minute: "1m", 5 * time.Minute: "5m", time.Hour: "1h"}[s.Width]
}

// series asks the API for what happened in a time.
func (s span) series(by string) adminapi.SeriesQuery {
	return adminapi.SeriesQuery{Start: s.From, End: s.To, Width: cmp.Or(s.width(), "1d"), By: by}
}

// maxUsageRows is how many groups the table has, and maxStack how many the chart tells apart. The CSV has all.
const maxUsageRows, maxStack = 100, 5

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

// stack draws the groups of a series on one another, and what remains of everything as others.
func stack(name, measure string, s adminapi.Series, shown span) chart {
	c := timeChart(name, unitFor(measure), shown)
	c.Stacked = true
	rest := make([]float64, len(s.Buckets))
	for i, b := range s.Buckets {
		rest[i] = measureOf(b.Totals, measure)
	}
	drawn := 0
	for _, g := range s.Groups {
		if len(g.Buckets) == 0 {
			continue
		}
		for _, b := range g.Buckets {
			value := measureOf(b.Totals, measure)
			c.put(drawn, labelOf(g), b.Start, value)
			if n := bucketOf(c.X, b.Start.Unix(), c.End); n >= 0 && n < len(rest) {
				rest[n] -= value
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
			c.put(drawn, label, b.Start, max(rest[i], 0))
		}
	}
	return c
}

// labelOf names a group for people.
func labelOf(g adminapi.SeriesGroup) string { return cmp.Or(g.DisplayName, g.Name, "none") }

// compare adds the previous period to a chart.
func (c *chart) compare(before *adminapi.Series, measure string) {
	if before == nil {
		return
	}
	values := make([]float64, len(before.Buckets))
	for i, b := range before.Buckets {
		values[i] = measureOf(b.Totals, measure)
	}
	c.before(values)
}

// A usageData is what the page of usage shows.
type usageData struct {
	usageQuery
	Groups, Measures []choice
	Away             string
	Series           adminapi.Series
	Before           *adminapi.Series // of the previous period; nil: it is not compared with
	Chart            chart
	CSV              string
	Budgets          adminapi.Budgets
}

// ByName names what the rows are of.
func (d usageData) ByName() string {
	for _, c := range d.Groups {
		if c.Value == d.By && d.By != "" {
			return c.Name
		}
	}
	return "Total"
}

// Only returns the part of the address that shows one group alone.
func (d usageData) Only(name string) string {
	q := url.Values{d.By: {name}, "measure": {d.Measure}}
	for field, list := range d.Filters {
		if field != d.By {
			q[field] = list
		}
	}
	return q.Encode()
}

func (v *visit) usage(w http.ResponseWriter, r *http.Request) error {
	data := usageData{usageQuery: v.usageQuery(r), Groups: usageGroups(), Measures: usageMeasures()}
	data.CSV = "/usage.csv?" + r.URL.RawQuery
	q := data.Span.series(data.By)
	q.Order, q.Groups, q.Detailed, q.Filters = data.Measure, maxUsageRows, maxStack, data.Filters
	var err error
	if data.Series, err = v.api.Series(r.Context(), q); err == nil && data.Span.Compare {
		data.Before, err = v.before(r, data.Span, data.Filters)
	}
	if err == nil {
		data.Budgets, err = v.api.Budgets(r.Context())
	}
	if data.Away, err = away(err); err != nil {
		if message, ok := refused(err); ok {
			return v.renderStatus(w, http.StatusUnprocessableEntity, "usage", "Usage", data, message)
		}
		return err
	}
	data.Chart = stack("Usage", data.Measure, data.Series, data.Span)
	data.Chart.compare(data.Before, data.Measure)
	return v.render(w, "usage", "Usage", data)
}

// before returns what happened in the previous period.
func (v *visit) before(r *http.Request, s span, filters map[string][]string) (*adminapi.Series, error) {
	q := s.Previous().series("")
	q.Filters = filters
	before, err := v.api.Series(r.Context(), q)
	return &before, err
}

// usageCSV answers with a line for each bucket and group.
func (v *visit) usageCSV(w http.ResponseWriter, r *http.Request) error {
	u := v.usageQuery(r)
	const all = 10_000 // as many as the API names
	q := u.Span.series(u.By)
	q.Order, q.Groups, q.Detailed, q.Filters = u.Measure, all, all, u.Filters
	s, err := v.api.Series(r.Context(), q)
	if err != nil {
		return err
	}
	lines := [][]string{{"start", cmp.Or(u.By, "group"), "name", "requests", "errors", "input_tokens",
		"cached_input_tokens", "output_tokens", "cost_usd"}}
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	add := func(id, name string, buckets []adminapi.SummaryHour) {
		for _, b := range buckets {
			lines = append(lines, []string{b.Start.UTC().Format(time.RFC3339), httpapi.CSVText(id), httpapi.CSVText(name),
				n(b.Requests), n(b.Errors), n(b.InputTokens), n(b.CachedTokens), n(b.OutputTokens), b.CostUSD})
		}
	}
	if u.By == "" {
		add("", "", s.Buckets)
	}
	for _, g := range s.Groups {
		add(g.Name, g.DisplayName, g.Buckets)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
	_ = csv.NewWriter(w).WriteAll(lines) // the browser has gone away
	return nil
}
