package report

import (
	"context"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
)

// Usage is what was used of something, or in a day.
type Usage struct {
	Name         string `json:"name"`
	DisplayName  string `json:"display_name,omitempty"` // for people; it may be empty
	Requests     int64  `json:"requests"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	CostUSD      string `json:"cost_usd"`

	cost usage.Nano
}

// byDay groups usage by day, UTC.
const byDay = "day"

const (
	// mostGroups is how many groups the admin API names at most.
	mostGroups = 10_000
	// hoursFor is how far back all sums are known by hour. The period of a table is the same by whatever it groups.
	hoursFor = 9 * 24 * time.Hour
)

// Used returns what was used in a period: by day, or by what else sums can be grouped by, the most expensive first.
// The period is one of whole hours, UTC, and of whole days if it began long ago.
func Used(ctx context.Context, client *adminapi.Client, by string, start, end time.Time,
	only map[string]string) ([]Usage, error) {
	q := adminapi.SeriesQuery{Start: start, End: end, Width: "1d", By: by, Groups: mostGroups,
		Filters: map[string][]string{}}
	for name, value := range only {
		if value != "" {
			q.Filters[name] = []string{value}
		}
	}
	if time.Since(start) < hoursFor {
		q.Width = "1h"
	}
	if by == byDay {
		q.By = ""
	}
	s, err := client.Series(ctx, q.Values())
	rows, rest := []Usage{}, usageOf("(others)", s.Totals)
	if by == byDay {
		rows = days(s.Buckets)
	}
	for _, g := range s.Groups {
		row := usageOf(g.Name, g.Totals)
		row.DisplayName = g.DisplayName
		rows = append(rows, row)
		rest.add(row, -1)
	}
	if s.GroupsLeftOut > 0 {
		rows = append(rows, rest)
	}
	for i := range rows {
		rows[i].CostUSD = rows[i].cost.String()
	}
	return rows, err
}

// days returns the rows of days, UTC, for hours or days.
func days(buckets []adminapi.SummaryHour) []Usage {
	rows := []Usage{}
	for _, b := range buckets {
		row := usageOf(b.Start.UTC().Format(time.DateOnly), b.Totals)
		if last := len(rows) - 1; last >= 0 && rows[last].Name == row.Name {
			rows[last].add(row, 1)
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

func usageOf(name string, t adminapi.Totals) Usage {
	cost, err := usage.ParseUSD(t.CostUSD)
	if err != nil {
		cost = 0 // the API leaves it empty if there is none
	}
	return Usage{Name: name, Requests: t.Requests, InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, cost: cost}
}

// add adds a row as often as times.
func (u *Usage) add(o Usage, times int64) {
	u.Requests += times * o.Requests
	u.InputTokens += times * o.InputTokens
	u.OutputTokens += times * o.OutputTokens
	u.cost += usage.Nano(times) * o.cost
}
