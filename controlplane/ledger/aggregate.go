package ledger

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/histogram"
	"github.com/modelgate/modelgate/internal/usage"
)

// Levels of aggregates. Those with keys may be as many as there are exchanges; what does not ask by key need not read
// them.
const (
	byHour       = 0
	byHourAndKey = 1
	byDay        = 2
	ofAll        = 3 // by hour, of all tenants together: by model and provider
	ofAllByDay   = 4
	levels       = 5
)

const (
	// keepMinutes is how long sums by minute are kept, of usage and of attempts.
	keepMinutes = 48 * time.Hour
	// keepNamedHours is how long the sums of keys and users by hour are kept. Those by day are kept as aggregates are.
	keepNamedHours = 10 * 24 * time.Hour
)

// A group identifies one aggregate.
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

// group returns that of the level byHourAndKey that a row counts in.
func (r *row) group() group {
	return group{level: byHourAndKey, start: r.at.Truncate(time.Hour).Unix(), organization: r.Organization,
		project: r.Project, key: r.Key, model: r.Model, upstream: r.UpstreamModel, provider: r.Provider,
		operation: r.Operation, batch: flag(r.Batch)}
}

// at returns the group of another level that one of byHourAndKey counts in.
func (g group) at(level int) group {
	g.level = level
	switch level {
	case byHour:
		g.key = ""
	case byDay:
		g.start, g.key = day(time.Unix(g.start, 0)).Unix(), ""
	case ofAll:
		return group{level: level, start: g.start, model: g.model, provider: g.provider}
	case ofAllByDay:
		return group{level: level, start: day(time.Unix(g.start, 0)).Unix(), model: g.model, provider: g.provider}
	}
	return g
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
	used     // and the counts of other uses
	cost     = used + int(usage.Kinds)
	latency  = cost + 1 // and the buckets after it
	measures = latency + histogram.Buckets
)

// Sums are measures, added up.
type sums [measures]int64

// columns returns those of the measures.
func columns() []string {
	all := slices.Concat([]string{"requests", "rejected", "errors"}, usage.Columns(), []string{"cost"})
	for i := range histogram.Buckets {
		all = append(all, "latency_"+strconv.Itoa(i))
	}
	return all
}

// measures returns what a row adds to its groups.
func (r *row) measures() sums {
	s := sums{requests: r.Requests, cost: r.CostNanoUsd}
	for k := range usage.Kinds {
		s[used+int(k)] = *k.In(r.Record)
	}
	if r.Outcome == "rejected" {
		s[rejected] = r.Requests
	}
	if (adminapi.Exchange{Status: int(r.Status), Outcome: r.Outcome}).Failed() {
		s[failed] = r.Requests
	}
	if r.Outcome == "finished" {
		s[latency+histogram.Bucket(r.duration.Milliseconds())] = r.Requests
	}
	return s
}

func (s *sums) add(other *sums) {
	for i := range s {
		s[i] += other[i]
	}
}

// Totals are sums by group.
type totals map[group]*sums

func (t totals) add(g group, m *sums) {
	if t[g] == nil {
		t[g] = &sums{}
	}
	t[g].add(m)
}

// A folding is the sums of some rows. A refused request is in none but those of refused requests.
type folding struct {
	keyed   totals // by hour and key; the sums of all other levels come from these
	minutes totals // by minute, model and provider
	named   namedSums
}

func fold(rows []row) folding {
	f := folding{totals{}, totals{}, namedSums{}}
	for i := range rows {
		r := &rows[i]
		if r.RefusedBy != "" {
			if r.Key != "" {
				f.named.add(sumsOfRefused, r.Key, r.at, &sums{requests: r.Requests})
			}
			continue
		}
		m := r.measures()
		f.keyed.add(r.group(), &m)
		f.minutes.add(group{start: r.at.Truncate(time.Minute).Unix(), model: r.Model,
			provider: r.Provider}, &m)
		f.named.add(sumsOfKeys, r.Key, r.at, &m)
		if r.User != "" {
			f.named.add(sumsOfUsers, r.User, r.at, &m)
		}
	}
	return f
}

// percentile returns the latency in milliseconds that the part p of exchanges do not exceed; 0 if there are none.
func (s *sums) percentile(p float64) int64 { return histogram.Percentile(s[latency:], p) }
