// Package findings is the page of the findings of guardrails and checkers.
//
// It shows counts and places, never the texts that were found.
package findings

import (
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place: 130,
		Lines: []page.Line{
			{Group: page.GroupRules, Path: "/findings", Name: "Findings", Scope: authz.UsageRead, Tenants: true, Ranged: true},
		},
		Routes: []page.Route{
			page.Get("/findings", authz.UsageRead, show),
		},
		Templates: templates,
	}
}

// A findingsData is what the page of findings shows.
type findingsData struct {
	Span    figures.Span
	Query   url.Values
	Away    string
	Actions []forms.Choice
	Rows    []findingRow
	Chart   figures.Chart
	Sums    adminapi.Findings
	Filters []findingFilter
}

// A findingFilter is a field of the form. Kind is the kind of object that it takes, if it takes any.
type findingFilter struct{ Name, Label, Placeholder, Kind string }

func findingFilters() []findingFilter {
	return []findingFilter{{"rule", "Rule", "such as personal/contact", ""}, {"key_name", "Key", "name or id", "Key"},
		{"organization", "Organization", "", "Organization"}, {"project", "Project", "", ""}, {"user", "User", "", ""},
		{"model", "Model", "", "Model"}}
}

func findingChoices() []forms.Choice {
	return forms.Choices([][2]string{{"", "any"}, {adminapi.FindingObserve, "observed"}, {adminapi.FindingMask, "masked"},
		{adminapi.FindingBlock, "blocked"}, {adminapi.FindingFailed, "checker away"}})
}

// A findingRow has one rule's findings: requests and matches by action.
type findingRow struct {
	Kind, Rule string
	// Counts are by action, in the order of findingChoices.
	Counts   []findingCount
	Last     time.Time
	Examples []string
	// Log is the address of the request log with the requests.
	Log string
}

// A findingCount is one cell.
type findingCount struct {
	Name              string
	Requests, Matches int64
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	d := findingsData{Span: figures.SpanOf(v, r), Query: r.URL.Query(), Actions: findingChoices(),
		Filters: findingFilters()}
	filters := map[string]string{"start": strconv.FormatInt(d.Span.From.Unix(), 10),
		"end": strconv.FormatInt(d.Span.To.Unix(), 10), "width": strconv.Itoa(int(d.Span.Width.Seconds())),
		"action": d.Query.Get("action")}
	chosen := url.Values{}
	for _, f := range d.Filters {
		if value := strings.TrimSpace(d.Query.Get(f.Name)); value != "" {
			filters[f.Name] = value
			chosen.Set(f.Name, value)
		}
	}
	sums, err := v.API.Findings(r.Context(), adminapi.ListOptions{Filters: filters})
	if problem, ok := page.Refused(err); ok {
		d.Span.Problem, err = problem, nil
	}
	if d.Away, err = page.Unavailable(err); err != nil {
		return err
	}
	d.Sums = sums
	d.add(chosen)
	d.draw()
	return v.Render(w, "findings", "Findings", d)
}

// add makes one row of all sums of a rule. The rule with the most requests comes first.
func (d *findingsData) add(chosen url.Values) {
	for _, f := range d.Sums.Items {
		i := slices.IndexFunc(d.Rows, func(r findingRow) bool { return r.Kind == f.Kind && r.Rule == f.Rule })
		if i < 0 {
			chosen.Set("rule", f.Kind+" "+f.Rule)
			i = len(d.Rows)
			d.Rows = append(d.Rows, findingRow{Kind: f.Kind, Rule: f.Rule, Log: "/requests?" + chosen.Encode()})
			for _, c := range findingChoices()[1:] {
				d.Rows[i].Counts = append(d.Rows[i].Counts, findingCount{Name: c.Name})
			}
		}
		row := &d.Rows[i]
		for n, c := range findingChoices()[1:] {
			if c.Value == f.Action {
				row.Counts[n].Requests, row.Counts[n].Matches = f.Requests, f.Matches
			}
		}
		if f.Last.After(row.Last) {
			row.Last, row.Examples = f.Last, f.Examples
		}
	}
}

// draw makes the figures.Chart of requests by action.
func (d *findingsData) draw() {
	d.Chart = figures.TimeChart("Requests with findings", "", d.Span)
	d.Chart.Stacked, d.Chart.Picks = true, true
	for i, c := range findingChoices()[1:] {
		d.Chart.Put(i, c.Name, d.Span.From, 0)
		for _, b := range d.Sums.Buckets {
			d.Chart.Put(i, c.Name, b.Start, float64([...]int64{b.Observe, b.Mask, b.Block, b.Failed}[i]))
		}
	}
}
