// Package usage is the page of usage, by group and time, and its export.
//
// The table has the largest groups only. The export has all.
package usage

import (
	"cmp"
	"embed"
	"encoding/csv"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/internal/httpapi"
)

//go:embed *.html
var templates embed.FS

// Section returns the page and its export.
func Section() page.Section {
	return page.Section{
		Place: 50,
		Lines: []page.Line{
			{Group: page.GroupUsage, Path: "/usage", Name: "Usage", Scope: authz.UsageRead, Tenants: true, Ranged: true},
			{Group: page.GroupUsage, Path: "/usage/cache", Name: "Cache", Scope: authz.UsageRead, Tenants: true, Ranged: true},
		},
		Routes: []page.Route{
			page.Get("/usage", authz.UsageRead, show),
			page.Get("/usage.csv", authz.UsageRead, export),
			page.Get("/usage/cache", authz.UsageRead, cache),
		},
		Templates: templates,
		Functions: template.FuncMap{"budgetPath": budgetPath, "duration": duration,
			"sum64": func(a, b int64) int64 { return a + b }},
	}
}

// A query is what somebody wants to know.
type query struct {
	Span        figures.Span
	By, Measure string
	// Filters are values by field.
	Filters map[string][]string
}

func groups() []forms.Choice {
	return forms.Choices([][2]string{{"", "nothing"}, {"model", "model"}, {"key", "key"},
		{"organization", "organization"}, {"project", "project"}, {"provider", "provider"}, {"user", "user"}})
}

func measures() []forms.Choice {
	return forms.Choices([][2]string{{"tokens", "tokens"}, {"requests", "requests"}, {"cost", "cost"},
		{"errors", "errors"}})
}

func queryOf(v *page.Visit, r *http.Request) query {
	q := r.URL.Query()
	u := query{Span: figures.SpanOf(v, r), By: q.Get("by"), Measure: q.Get("measure"), Filters: map[string][]string{}}
	for _, field := range groups()[1:] { // by which usage is chosen, too
		if list := forms.List(q.Get(field.Value)); len(list) > 0 {
			u.Filters[field.Value] = list
		}
	}
	has := func(value string) func(forms.Choice) bool {
		return func(c forms.Choice) bool { return c.Value == value }
	}
	if !slices.ContainsFunc(groups(), has(u.By)) {
		u.By = ""
	}
	if !slices.ContainsFunc(measures(), has(u.Measure)) {
		u.Measure = "tokens"
	}
	return u
}

// maxRows is how many groups the table has. The CSV has all.
const maxRows = 100

// A usageData is what the page of usage shows.
type usageData struct {
	query
	Groups, Measures []forms.Choice
	Away             string
	Series           adminapi.Series
	Before           *adminapi.Series // of the previous period; nil: it is not compared with
	Chart            figures.Chart
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

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := usageData{query: queryOf(v, r), Groups: groups(), Measures: measures()}
	data.CSV = "/usage.csv?" + r.URL.RawQuery
	q := data.Span.Series(data.By)
	q.Order, q.Groups, q.Detailed, q.Filters = data.Measure, maxRows, figures.MaxStack, data.Filters
	var err error
	if data.Series, err = v.API.Series(r.Context(), q.Values()); err == nil && data.Span.Compare {
		data.Before, err = figures.Before(v, r, data.Span, data.Filters)
	}
	if err == nil {
		data.Budgets, err = v.API.Budgets(r.Context())
	}
	if data.Away, err = page.Unavailable(err); err != nil {
		if message, ok := page.Refused(err); ok {
			return v.RenderStatus(w, http.StatusUnprocessableEntity, "usage", "Usage", data, message)
		}
		return err
	}
	data.Chart = figures.Stack("Usage", data.Measure, data.Series, data.Span)
	data.Chart.Compare(data.Before, data.Measure)
	data.Chart.Picks = true
	return v.Render(w, "usage", "Usage", data)
}

// export answers with a line for each bucket and group.
func export(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	u := queryOf(v, r)
	const all = 10_000 // as many as the API names
	q := u.Span.Series(u.By)
	q.Order, q.Groups, q.Detailed, q.Filters = u.Measure, all, all, u.Filters
	s, err := v.API.Series(r.Context(), q.Values())
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

// budgetPath returns the path of who has a budget: key/NAME, organization/NAME or project/NAME.
func budgetPath(scope string) string {
	kind, name, _ := strings.Cut(scope, "/")
	return page.Path(kind+"s", name)
}
