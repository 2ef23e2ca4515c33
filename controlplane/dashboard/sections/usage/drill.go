package usage

import (
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
)

// closer is what usage of one group is grouped by when it is looked at more closely.
func closer(by string) string {
	switch by {
	case "model", "organization", "project":
		return "key"
	}
	return "model"
}

// Only returns the part of the address that shows one group alone, by something else.
func (d usageData) Only(name string) string {
	q := url.Values{"measure": {d.Measure}}
	maps.Copy(q, d.Filters)
	q.Set(d.By, name)
	q.Set("by", closer(d.By))
	return q.Encode()
}

// Requests returns the address of the requests in the row of a group, or of all rows if it has no name. It is empty if
// the request log has no filter for them.
func (d usageData) Requests(name string) string {
	q := d.filters(name)
	if q == nil {
		return ""
	}
	return "/requests?" + strings.TrimPrefix(q.Encode()+"&"+string(d.Span.Query()), "&")
}

// Of returns the address of the requests in a bar.
func (d usageData) Of(b adminapi.SummaryHour) string {
	q := d.filters("")
	if q == nil {
		return ""
	}
	bar := figures.Span{From: b.Start, To: b.Start.Add(d.Span.Width)}
	q.Set("from", bar.FromField())
	q.Set("to", bar.ToField())
	return "/requests?" + q.Encode()
}

// filters are those of the request log for a group. They are nil if there are none: the log takes one value of each.
func (d usageData) filters(name string) url.Values {
	q, all := url.Values{}, maps.Clone(d.Filters)
	if name != "" {
		all[d.By] = []string{name}
	}
	for field, list := range all {
		if len(list) != 1 {
			return nil
		}
		value := list[0]
		if organization, project, whole := strings.Cut(value, "/"); whole && field == "project" {
			q.Set("organization", organization)
			value = project
		}
		q.Set(field, value)
	}
	return q
}

// Bars are those with requests, the latest first.
func (d usageData) Bars() []adminapi.SummaryHour {
	bars := slices.Clone(d.Series.Buckets)
	bars = slices.DeleteFunc(bars, func(b adminapi.SummaryHour) bool { return b.Requests == 0 })
	slices.Reverse(bars)
	return bars
}

// Also returns the address of the same usage by something else.
func (d usageData) Also(by string) template.URL {
	q := url.Values{"measure": {d.Measure}}
	for field, list := range d.Filters {
		q.Set(field, strings.Join(list, ", "))
	}
	q.Set("by", by)
	return template.URL("/usage?" + q.Encode() + "&" + string(d.Span.Query())) //nolint:gosec // it is encoded
}
