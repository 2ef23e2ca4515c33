package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// summarized reports whether the answer comes from the summary, which knows costs and providers, and not from OpenAI's
// endpoints, which know more groups.
func (u usageQuery) summarized() bool {
	for _, list := range u.Filters {
		if len(list) > 1 {
			return false
		}
	}
	if len(u.Filters["user_ids"]) > 0 || u.end.Sub(u.start) > adminapi.LongestSummary {
		return false
	}
	return u.By == "" || u.By == "provider" || len(u.Filters["organization"])+len(u.Filters["provider"]) > 0
}

// summary asks for the summary.
func (u usageQuery) summary(ctx context.Context, v *visit) (adminapi.Summary, error) {
	o := adminapi.ListOptions{Filters: map[string]string{"start": strconv.FormatInt(u.start.Unix(), 10),
		"end": strconv.FormatInt(u.end.Unix(), 10)}}
	for theirs, ours := range map[string]string{"models": "model", "api_key_ids": "key", "project_ids": "project",
		"organization": "organization", "provider": "provider"} {
		o.Filters[ours] = u.Filters.Get(theirs)
	}
	return v.api.Summary(ctx, o)
}

// summarize shows the summary.
func (d *usageData) summarize(ctx context.Context, v *visit) error {
	s, err := d.summary(ctx, v)
	if err != nil || s.Requests == 0 {
		return err
	}
	d.Total = rowOf("", s.Totals)
	switch d.By {
	case "model":
		d.Rows = rowsOf(s.Models)
	case "provider":
		d.Rows = rowsOf(s.Providers)
	default:
		d.Rows = []usageRow{d.Total}
	}
	d.Chart = chart{Name: "Usage", Time: true, Unit: unitFor(d.Measure)}
	width := time.Hour
	if d.width == "1d" {
		width = 24 * time.Hour
	}
	for _, h := range s.Hours {
		row := rowOf("", h.Totals)
		at := h.Start.UTC().Truncate(width).Unix()
		if last := len(d.Chart.X) - 1; last >= 0 && d.Chart.X[last] == at {
			*d.Chart.Series[0].Values[last] += row.of(d.Measure)
			continue
		}
		d.Chart.X = append(d.Chart.X, at)
		d.Chart.add(0, d.Measure, row.of(d.Measure))
	}
	return nil
}

func unitFor(measure string) string {
	if measure == "cost" {
		return "$"
	}
	return ""
}

func rowOf(name string, t adminapi.Totals) usageRow {
	cost, _ := strconv.ParseFloat(t.CostUSD, 64) // a decimal
	return usageRow{Name: name, Requests: t.Requests, Input: t.InputTokens, Output: t.OutputTokens, Cost: cost}
}

func rowsOf(totals []adminapi.NamedTotals) []usageRow {
	var rows []usageRow
	for _, t := range totals {
		rows = append(rows, rowOf(t.Name, t.Totals))
	}
	return rows
}

// ask returns the buckets of OpenAI's endpoints.
func (u usageQuery) ask(ctx context.Context, v *visit) ([]usageBucket, error) {
	if u.Measure != "cost" {
		buckets, err := u.askFor(ctx, v, "completions", u.By)
		if err != nil {
			return nil, err
		}
		more, err := u.askFor(ctx, v, "embeddings", u.By)
		for i := range min(len(more), len(buckets)) { // of the same times
			buckets[i].Results = append(buckets[i].Results, more[i].Results...)
		}
		return buckets, err
	}
	if u.By != "model" {
		return u.askFor(ctx, v, "costs", u.By)
	}
	buckets, err := u.askFor(ctx, v, "costs", "line_item")
	for _, b := range buckets {
		for i := range b.Results {
			b.Results[i].Model = b.Results[i].LineItem
		}
	}
	return buckets, err
}

// askFor returns the buckets of one resource, all of its pages.
func (u usageQuery) askFor(ctx context.Context, v *visit, resource, by string) ([]usageBucket, error) {
	limit := "168"
	if u.width == "1d" {
		limit = "31"
		if resource == "costs" {
			limit = "180"
		}
	}
	q := url.Values{"start_time": {strconv.FormatInt(u.start.Unix(), 10)},
		"end_time": {strconv.FormatInt(u.end.Unix(), 10)}, "bucket_width": {u.width}, "limit": {limit}}
	for name, list := range u.Filters {
		q[name] = list
	}
	if by != "" {
		q.Set("group_by", by)
	}
	const maxPages = 20
	var buckets []usageBucket
	for range maxPages {
		body, err := v.api.Usage(ctx, resource, q)
		if err != nil {
			return nil, err
		}
		var page usagePage
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("read the usage: %w", err)
		}
		buckets = append(buckets, page.Data...)
		if !page.HasMore || page.NextPage == "" {
			break
		}
		q.Set("page", page.NextPage)
	}
	return buckets, nil
}
