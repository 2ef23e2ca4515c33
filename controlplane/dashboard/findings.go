package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A findingsData is what the page of findings shows.
type findingsData struct {
	Span    span
	Query   url.Values
	Away    string
	Actions []choice
	Rows    []findingRow
	Chart   chart
	Sums    adminapi.Findings
	Filters []findingFilter
}

// A findingFilter is a field of the form.
type findingFilter struct{ Name, Label, Placeholder string }

func findingFilters() []findingFilter {
	return []findingFilter{{"rule", "Rule", "such as personal/contact"}, {"key_name", "Key", "name or id"},
		{"organization", "Organization", ""}, {"project", "Project", ""}, {"user", "User", ""}, {"model", "Model", ""}}
}

func findingChoices() []choice {
	return []choice{{"", "any"}, {adminapi.FindingObserve, "observed"}, {adminapi.FindingMask, "masked"},
		{adminapi.FindingBlock, "blocked"}, {adminapi.FindingFailed, "checker away"}}
}

// A findingRow is what one rule has found, with requests and matches by action.
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

func (v *visit) findings(w http.ResponseWriter, r *http.Request) error {
	d := findingsData{Span: v.span(r), Query: r.URL.Query(), Actions: findingChoices(), Filters: findingFilters()}
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
	sums, err := v.api.Findings(r.Context(), adminapi.ListOptions{Filters: filters})
	if problem, ok := refused(err); ok {
		d.Span.Problem, err = problem, nil
	}
	if d.Away, err = away(err); err != nil {
		return err
	}
	d.Sums = sums
	d.add(chosen)
	d.draw()
	return v.render(w, "findings", "Findings", d)
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

// draw makes the chart of requests by action.
func (d *findingsData) draw() {
	d.Chart = timeChart("Requests with findings", "", d.Span)
	d.Chart.Bars, d.Chart.Picks = true, true
	for i, c := range findingChoices()[1:] {
		d.Chart.put(i, c.Name, d.Span.From, 0)
		for _, b := range d.Sums.Buckets {
			d.Chart.put(i, c.Name, b.Start, float64([...]int64{b.Observe, b.Mask, b.Block, b.Failed}[i]))
		}
	}
}
