package admin

import (
	"net/url"
	"strconv"
	"time"
)

// A SeriesQuery asks for sums over time.
type SeriesQuery struct {
	Start, End time.Time
	// Width of a bucket: 1m, 5m, 1h or 1d.
	Width string
	// By is what groups are of: model, key, organization, project, provider or user; empty: there are none.
	By string
	// Order is the measure by which the largest groups are chosen: cost, tokens, requests or errors. Default cost.
	Order string
	// Groups is how many groups are named, and Detailed how many of them have buckets of their own.
	Groups, Detailed int
	// Filters are values by model, key, organization, project, provider and user. A project is named with its
	// organization, as acme/web, or without.
	Filters map[string][]string
}

// Values returns the query of the URL.
func (q SeriesQuery) Values() url.Values {
	v := url.Values{"start": {strconv.FormatInt(q.Start.Unix(), 10)}, "end": {strconv.FormatInt(q.End.Unix(), 10)},
		"width": {q.Width}, "by": {q.By}, "order": {q.Order}, "groups": {strconv.Itoa(q.Groups)},
		"detailed": {strconv.Itoa(q.Detailed)}}
	for name, list := range q.Filters {
		v[name] = list
	}
	return v
}
