package dashboard

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/internal/httpapi"
)

// The answers of OpenAI's usage and cost endpoints, as far as they are shown.
type (
	usagePage struct {
		Data     []usageBucket `json:"data"`
		HasMore  bool          `json:"has_more"`
		NextPage string        `json:"next_page"`
	}
	usageBucket struct {
		Start   int64         `json:"start_time"`
		Results []usageResult `json:"results"`
	}
	usageResult struct {
		Requests  int64  `json:"num_model_requests"`
		Input     int64  `json:"input_tokens"`
		Cached    int64  `json:"input_cached_tokens"`
		Output    int64  `json:"output_tokens"`
		Model     string `json:"model"`
		Project   string `json:"project_id"`
		User      string `json:"user_id"`
		Key       string `json:"api_key_id"`
		LineItem  string `json:"line_item"`
		AmountRaw struct {
			Value json.RawMessage `json:"value"`
		} `json:"amount"`
	}
)

// group returns what a result is grouped by.
func (u usageResult) group(by string) string {
	switch by {
	case "model":
		return u.Model
	case "project_id":
		return u.Project
	case "user_id":
		return u.User
	case "api_key_id":
		return u.Key
	}
	return ""
}

func (u usageResult) cost() float64 {
	f, _ := strconv.ParseFloat(strings.Trim(string(u.AmountRaw.Value), `"`), 64) // absent: 0
	return f
}

// A usageQuery is what somebody wants to know.
type usageQuery struct {
	Range, From, To, By, Measure string
	Filters                      url.Values

	start, end time.Time
	width      string
}

// Ranges, groups and measures that can be chosen, with their names.
type choice struct{ Value, Name string }

func usageRanges() []choice {
	return []choice{{"24h", "last 24 hours"}, {"7d", "last 7 days"}, {"30d", "last 30 days"}, {"90d", "last 90 days"},
		{"days", "custom"}}
}

func usageGroups() []choice {
	return []choice{{"", "nothing"}, {"model", "model"}, {"api_key_id", "key"}, {"project_id", "project"},
		{"user_id", "user"}, {"provider", "provider"}}
}

func usageMeasures() []choice {
	return []choice{{"tokens", "tokens"}, {"requests", "requests"}, {"cost", "cost"}}
}

// usageFilters are the parameters of OpenAI's endpoints, and those of ours, that choose what is counted.
func usageFilters() []string {
	return []string{"models", "api_key_ids", "project_ids", "user_ids", "organization", "provider"}
}

func usageQueryOf(q url.Values, now time.Time) usageQuery {
	u := usageQuery{Range: cmp.Or(q.Get("range"), "24h"), From: q.Get("from"), To: q.Get("to"), By: q.Get("by"),
		Measure: cmp.Or(q.Get("measure"), "tokens"), Filters: url.Values{}}
	if !slices.ContainsFunc(usageGroups(), func(c choice) bool { return c.Value == u.By }) {
		u.By = ""
	}
	for _, name := range usageFilters() {
		if list := listOf(q.Get(name)); len(list) > 0 {
			u.Filters[name] = list
		}
	}
	u.end, u.width = now, "1d"
	day := now.UTC().Truncate(24 * time.Hour)
	switch u.Range {
	case "7d":
		u.start, u.width = now.Add(-7*24*time.Hour).Truncate(time.Hour), "1h"
		if u.By == "api_key_id" || u.By == "user_id" { // of which there are many: a week by hour would be slow
			u.start, u.width = day.AddDate(0, 0, -6), "1d"
		}
	case "30d":
		u.start = day.AddDate(0, 0, -29)
	case "90d":
		u.start = day.AddDate(0, 0, -89)
	case "days":
		from, errFrom := time.Parse(time.DateOnly, u.From)
		to, errTo := time.Parse(time.DateOnly, u.To)
		if errFrom == nil && errTo == nil && !to.Before(from) && to.Sub(from) < 366*24*time.Hour {
			u.start, u.end = from, to.AddDate(0, 0, 1)
			break
		}
		fallthrough
	default:
		u.Range, u.start, u.width = "24h", now.Add(-23*time.Hour).Truncate(time.Hour), "1h"
	}
	if u.Measure == "cost" && u.width == "1h" { // costs are by day
		u.width, u.start = "1d", u.start.UTC().Truncate(24*time.Hour)
	}
	return u
}

// Width is that of a bucket: 1h or 1d.
func (u usageQuery) Width() string { return u.width }

// A usageRow is the sum of a group.
type usageRow struct {
	Name                            string
	Requests, Input, Cached, Output int64
	Cost                            float64
}

// USD returns the cost as a decimal.
func (r usageRow) USD() string { return strconv.FormatFloat(r.Cost, 'f', 9, 64) }

func (r usageRow) of(measure string) float64 {
	switch measure {
	case "requests":
		return float64(r.Requests)
	case "cost":
		return r.Cost
	}
	return float64(r.Input + r.Output)
}

func (r *usageRow) add(u usageResult) {
	r.Requests += u.Requests
	r.Input += u.Input
	r.Cached += u.Cached
	r.Output += u.Output
	r.Cost += u.cost()
}

// maxUsageRows is how many groups the table has. The CSV has all.
const maxUsageRows = 100

// A usageData is what the explorer shows.
type usageData struct {
	usageQuery
	Ranges, Groups, Measures []choice
	Away                     string
	Full                     bool // there are costs beside the rest
	Rows                     []usageRow
	Hidden                   int // how many more groups there are
	Total                    usageRow
	Chart                    chart
	CSV                      string
}

func (v *visit) usage(w http.ResponseWriter, r *http.Request) error {
	data := usageData{usageQuery: usageQueryOf(r.URL.Query(), v.config.Now()), Ranges: usageRanges(),
		Groups: usageGroups(), Measures: usageMeasures()}
	data.CSV = "/usage.csv?" + r.URL.RawQuery
	var buckets []usageBucket
	var err error
	if data.Full = data.summarized(); data.Full {
		err = data.summarize(r.Context(), v)
	} else {
		buckets, err = data.ask(r.Context(), v)
	}
	if data.Away, err = away(err); err != nil {
		if message, ok := refused(err); ok {
			return v.renderStatus(w, http.StatusUnprocessableEntity, "usage", "Usage", data, message)
		}
		return err
	}
	if !data.Full {
		data.sum(buckets)
	}
	return v.render(w, "usage", "Usage", data)
}

// sum adds up what is in the table, and draws the chart: a line for each of the five largest groups, and one for the
// others.
func (d *usageData) sum(buckets []usageBucket) {
	rows := map[string]*usageRow{}
	for _, b := range buckets {
		for _, u := range b.Results {
			name := u.group(d.By)
			if rows[name] == nil {
				rows[name] = &usageRow{Name: name}
			}
			rows[name].add(u)
			d.Total.add(u)
		}
	}
	for _, r := range rows {
		d.Rows = append(d.Rows, *r)
	}
	slices.SortFunc(d.Rows, func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(b.of(d.Measure), a.of(d.Measure)), cmp.Compare(a.Name, b.Name))
	})
	d.Hidden = max(0, len(d.Rows)-maxUsageRows)
	const lines = 5
	line := map[string]int{}
	for i, r := range d.Rows {
		line[r.Name] = min(i, lines)
	}
	d.Chart = chart{Name: "Usage", Time: true, Unit: unitFor(d.Measure)}
	for _, b := range buckets {
		values := make([]usageRow, min(len(d.Rows), lines+1))
		for _, u := range b.Results {
			values[line[u.group(d.By)]].add(u)
		}
		d.Chart.X = append(d.Chart.X, b.Start)
		for i := range values {
			name := cmp.Or(d.Rows[i].Name, d.Measure)
			if i == lines {
				name = "others"
			}
			d.Chart.add(i, name, values[i].of(d.Measure))
		}
	}
	d.Rows = d.Rows[:len(d.Rows)-d.Hidden]
}

// usageCSV answers with a line for each bucket and group, or, of what comes from the summary, for each hour.
func (v *visit) usageCSV(w http.ResponseWriter, r *http.Request) error {
	q := usageQueryOf(r.URL.Query(), v.config.Now())
	lines := [][]string{{"start", cmp.Or(q.By, "group"), "requests", "input_tokens", "cached_input_tokens",
		"output_tokens", "cost_usd"}}
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	if q.summarized() {
		s, err := q.summary(r.Context(), v)
		if err != nil {
			return err
		}
		for _, h := range s.Hours {
			lines = append(lines, []string{h.Start.UTC().Format(time.RFC3339), "", n(h.Requests), n(h.InputTokens), "",
				n(h.OutputTokens), h.CostUSD})
		}
	} else {
		buckets, err := q.ask(r.Context(), v)
		if err != nil {
			return err
		}
		for _, b := range buckets {
			for _, u := range b.Results {
				lines = append(lines, []string{
					time.Unix(b.Start, 0).UTC().Format(time.RFC3339), httpapi.CSVText(u.group(q.By)), n(u.Requests), n(u.Input),
					n(u.Cached), n(u.Output),
					strconv.FormatFloat(u.cost(), 'f', -1, 64),
				})
			}
		}
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
	_ = csv.NewWriter(w).WriteAll(lines) // the browser has gone away
	return nil
}
