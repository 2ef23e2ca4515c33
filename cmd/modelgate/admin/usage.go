package admin

import (
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/usage"
)

// UsageCmd is the command usage.
type UsageCmd struct {
	adminflags.AdminFlags
	By           string `enum:"day,model,provider,key,project,organization,user" default:"day" help:"Group by ${enum}. For providers, the table shows the ten with the highest cost and the sum of the others. For users, the cost is unknown."`
	Since        string `default:"30d" placeholder:"WHEN" help:"Start: a time such as 2026-11-01, or how long ago, such as 24h or 7d (${default})."`
	Until        string `default:"0s" placeholder:"WHEN" help:"End, in the same form. Default: now."`
	Organization string `placeholder:"NAME" help:"Only this organization; by day, provider, organization or project."`
	Project      string `placeholder:"NAME" help:"Only this project."`
	Key          string `placeholder:"ID" predictor:"keys" help:"Only this key, by its id or its name."`
	Model        string `placeholder:"NAME" predictor:"models" help:"Only this model; by day or provider."`
	Output       string `short:"o" enum:"table,text,json,yaml,csv" default:"table" help:"table, json, yaml or csv."`
}

// Help is shown below the flags' summary.
func (UsageCmd) Help() string {
	return "Example:\n  modelgate usage --by key --since 2026-11-01 -o csv"
}

// A usageRow is what was used of something, or in a day.
type usageRow struct {
	Name         string `json:"name"`
	Requests     int64  `json:"requests"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	CostUSD      string `json:"cost_usd"`

	cost usage.Nano
}

// Run prints what was used.
func (c UsageCmd) Run(ctx context.Context, stdout io.Writer) error {
	now := time.Now()
	start, end, err := adminflags.ParsePeriod(c.Since, c.Until, now)
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	if c.Key, err = adminflags.IDOf(ctx, client, configv1.KeyKind(), c.Key); err != nil {
		return err
	}
	var rows []usageRow
	switch c.By {
	case "day", "provider":
		rows, err = c.summed(ctx, client, start, end)
	default:
		rows, err = c.grouped(ctx, client, start, end)
	}
	if err != nil {
		return admincli.Said(err)
	}
	for i := range rows {
		if c.By != "user" {
			rows[i].CostUSD = rows[i].cost.String()
		}
	}
	return c.show(stdout, rows)
}

func (c UsageCmd) show(stdout io.Writer, rows []usageRow) error {
	header := []string{c.By, "requests", "input_tokens", "output_tokens", "cost_usd"}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{r.Name, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.InputTokens, 10),
			strconv.FormatInt(r.OutputTokens, 10), r.CostUSD}
	}
	if c.Output == "csv" {
		for i := range cells {
			cells[i][0] = httpapi.CSVText(cells[i][0])
		}
		w := csv.NewWriter(stdout)
		return cmp.Or(w.Write(header), w.WriteAll(cells))
	}
	return adminflags.OutputFlags{Output: c.Output}.Show(stdout, rows, func(out *strings.Builder) {
		admincli.Table(out, []string{"BY " + c.By, "REQUESTS", "INPUT TOKENS", "OUTPUT TOKENS", "USD"}, cells)
	})
}

// summed returns the rows by day or provider.
func (c UsageCmd) summed(ctx context.Context, client *adminapi.Client, start, end time.Time) ([]usageRow, error) {
	rows := []usageRow{}
	for from := start.Truncate(time.Hour); from.Before(end); from = from.Add(adminapi.LongestSummary) {
		to := end
		if most := from.Add(adminapi.LongestSummary); to.After(most) {
			to = most
		}
		s, err := client.Summary(ctx, adminapi.ListOptions{Filters: map[string]string{
			"start": strconv.FormatInt(from.Unix(), 10), "end": strconv.FormatInt(to.Unix(), 10),
			"organization": c.Organization, "project": c.Project, "key": c.Key, "model": c.Model,
		}})
		if err != nil {
			return nil, err
		}
		if c.By == "day" {
			rows = days(rows, s.Hours)
			continue
		}
		rest := rowOf("(others)", s.Totals)
		for _, n := range s.Providers {
			row := rowOf(n.Name, n.Totals)
			rest.Requests, rest.InputTokens, rest.OutputTokens = rest.Requests-row.Requests, rest.InputTokens-row.InputTokens,
				rest.OutputTokens-row.OutputTokens
			rest.cost -= row.cost
			rows = append(rows, row)
		}
		if rest.Requests > 0 {
			rows = append(rows, rest)
		}
	}
	if c.By == "provider" {
		rows = merge(rows)
	}
	return rows, nil
}

// days adds hours to rows of days, UTC.
func days(rows []usageRow, hours []adminapi.SummaryHour) []usageRow {
	for _, h := range hours {
		row := rowOf(h.Start.UTC().Format(time.DateOnly), h.Totals)
		if last := len(rows) - 1; last >= 0 && rows[last].Name == row.Name {
			rows[last].add(row)
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

func rowOf(name string, t adminapi.Totals) usageRow {
	cost, err := usage.ParseUSD(t.CostUSD)
	if err != nil {
		cost = 0 // the API leaves it empty where there is none
	}
	return usageRow{Name: name, Requests: t.Requests, InputTokens: t.InputTokens, OutputTokens: t.OutputTokens,
		cost: cost}
}

func (r *usageRow) add(o usageRow) {
	r.Requests, r.InputTokens, r.OutputTokens, r.cost = r.Requests+o.Requests, r.InputTokens+o.InputTokens,
		r.OutputTokens+o.OutputTokens, r.cost+o.cost
}

// merge sums rows up by their names, and sorts them by cost.
func merge(rows []usageRow) []usageRow {
	byName := map[string]*usageRow{}
	for _, r := range rows {
		if sum := byName[r.Name]; sum != nil {
			sum.add(r)
			continue
		}
		byName[r.Name] = &r
	}
	merged := make([]usageRow, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		merged = append(merged, *byName[name])
	}
	slices.SortStableFunc(merged, func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(b.InputTokens+b.OutputTokens, a.InputTokens+a.OutputTokens))
	})
	return merged
}
