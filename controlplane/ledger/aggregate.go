package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/internal/usage"
)

// Levels of aggregates. Those with keys may be as many as there are exchanges; what does not ask by key need not read
// them.
const (
	byHour       = 0
	byHourAndKey = 1
	byDay        = 2
	ofAll        = 3 // by hour, of all tenants together: by model and provider
	levels       = 4
)

// A group is what one aggregate is of.
type group struct {
	level                      int
	start                      int64
	organization, project, key string
	model, upstream, provider  string
	operation                  string
	batch                      int64
}

const groupColumns = "level, start, organization, project, api_key, model, upstream_model, provider, operation, batch"

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.start, b.start),
		strings.Compare(a.organization, b.organization),
		strings.Compare(a.project, b.project), strings.Compare(a.key, b.key), strings.Compare(a.model, b.model),
		strings.Compare(a.upstream, b.upstream),
		strings.Compare(a.provider, b.provider), strings.Compare(a.operation, b.operation), cmp.Compare(a.batch, b.batch))
}

// groups returns those that a row counts in.
func (r row) groups() [levels]group {
	g := group{organization: r.Organization, project: r.Project, key: r.Key, model: r.Model, upstream: r.UpstreamModel,
		provider:  r.Provider,
		operation: r.Operation, batch: flag(r.Batch)}
	var all [levels]group
	for level := range all {
		all[level] = g
		all[level].level = level
		all[level].start = r.at.Truncate(time.Hour).Unix()
		if level == byDay {
			all[level].start = day(r.at).Unix()
		}
		if level != byHourAndKey {
			all[level].key = ""
		}
		if level == ofAll {
			all[level] = group{level: level, start: all[level].start, model: g.model, provider: g.provider}
		}
	}
	return all
}

func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) } // the zero time is a midnight

func month(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Measures of an aggregate, by their columns, before those of latency.
const (
	requests = iota
	rejected
	failed
	used     // and the other kinds of what is used
	cost     = used + int(usage.Kinds)
	latency  = cost + 1 // and the buckets after it
	measures = latency + latencies
)

// Sums are measures, added up.
type sums [measures]int64

// columns returns those of the measures.
func columns() []string {
	all := slices.Concat([]string{"requests", "rejected", "errors"}, usage.Columns(), []string{"cost"})
	for i := range latencies {
		all = append(all, "latency_"+strconv.Itoa(i))
	}
	return all
}

// Conditions on an exchange, in SQL. They say what measures of it says in Go.
const (
	isRejected = "outcome = 'rejected'"
	isFailed   = "(status >= 500 OR outcome IN ('truncated', 'interrupted', 'gateway'))"
)

// measures returns what a row adds to its groups.
func (r row) measures() sums {
	s := sums{requests: r.Requests, cost: r.CostNanoUsd}
	for k := range usage.Kinds {
		s[used+int(k)] = *k.Of(r.Record)
	}
	if r.Outcome == "rejected" {
		s[rejected] = r.Requests
	}
	if r.Status >= 500 || slices.Contains([]string{"truncated", "interrupted", "gateway"}, r.Outcome) {
		s[failed] = r.Requests
	}
	if r.Outcome == "finished" {
		s[latency+latencyBucket(r.duration.Milliseconds())] = r.Requests
	}
	return s
}

func (s *sums) add(other *sums) {
	for i := range s {
		s[i] += other[i]
	}
}

// addAggregates adds rows to the sums, in an order that is the same for all transactions, so that none waits for one
// that waits for it.
func (l *Ledger) addAggregates(ctx context.Context, tx *sql.Tx, rows []row) error {
	total := map[group]*sums{}
	for _, r := range rows {
		m := r.measures()
		for _, g := range r.groups() {
			if total[g] == nil {
				total[g] = &sums{}
			}
			total[g].add(&m)
		}
	}
	all := make([]group, 0, len(total))
	for g := range total {
		all = append(all, g)
	}
	slices.SortFunc(all, compareGroups)
	return l.inserts.aggregates.insert(ctx, tx, len(all), func(to []any, i int) []any {
		g := all[i]
		to = append(to, g.level, g.start, g.organization, g.project, g.key, g.model, g.upstream, g.provider, g.operation,
			g.batch)
		for _, n := range total[g] {
			to = append(to, n)
		}
		return to
	}, nil)
}
