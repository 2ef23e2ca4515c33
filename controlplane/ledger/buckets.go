package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/ledger/cachesums"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Restriction limits what a caller may see. All fields that are not empty must match, beside the caller's own
// filters. Without any, everything may be seen.
type Restriction struct{ Organization, Project, Key string }

// A Query asks for sums.
type Query struct {
	Restriction
	// Resource is completions, embeddings, moderations, images, audio_speeches or audio_transcriptions; empty or costs:
	// all.
	Resource string
	// From is the beginning of the first bucket and To the end of the last, which is not counted: times that buckets of
	// the width begin at.
	From, To time.Time
	// Width is a minute, an hour or a day.
	Width time.Duration
	// What is counted; an empty list is no condition. Projects are names within their organizations. Users, and a width
	// of a minute, are known for as long as exchanges are kept.
	Projects, Users, Keys, Models []string
	Batch                         *bool
	// GroupBy are fields of groups: organization_id, project_id, user_id, api_key_id, model, line_item (the model),
	// provider, batch.
	GroupBy []string
}

// A Row is one group of one bucket.
type Row struct {
	Start time.Time
	// Group are the values of Query.GroupBy, in its order.
	Group    []string
	Requests int64 // that went to a provider
	Used     usage.Counts
	Cost     usage.Nano
}

// groupColumn are the columns of the fields of groups.
func groupColumn(field string) string {
	switch field {
	case "organization_id":
		return "organization"
	case "project_id":
		return "project"
	case "api_key_id":
		return "api_key"
	case "line_item":
		return "model"
	case "user_id", "model", "provider", "batch":
		return field
	}
	return ""
}

// MaxRows is the most rows that are returned.
const MaxRows = 50_000

// Rows returns the sums, by bucket and then by group, without those of nothing. It returns an error of OpenAI's if
// they are more than MaxRows.
func (l usageReader) Rows(ctx context.Context, q Query) ([]Row, error) {
	if q.Width == time.Minute || len(q.Users) > 0 || slices.Contains(q.GroupBy, "user_id") {
		return l.detailedRows(ctx, q)
	}
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	s := l.db.Statement("SELECT ")
	q.fromAggregates(s)
	q.conditions(s)
	columns := []string{"1"}
	for _, field := range q.GroupBy {
		columns = append(columns, groupColumn(field))
	}
	s.Add(" GROUP BY ", strings.Join(columns, ", "))
	s.Add(" HAVING SUM(requests) > SUM(rejected) OR SUM(cost) > 0")
	s.Add(" ORDER BY ", strings.Join(columns, ", "), " LIMIT ", s.Arg(MaxRows+1))
	var all []Row
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		r, err := scanRow(rows, len(q.GroupBy))
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading usage: %w", err)
	}
	if len(all) > MaxRows {
		return nil, errTooMany()
	}
	return all, nil
}

func scanRow(rows *sql.Rows, groups int) (Row, error) {
	var r Row
	var start int64
	r.Group = make([]string, groups)
	into := []any{&start, &r.Requests}
	for i := range r.Used {
		into = append(into, &r.Used[i])
	}
	into = append(into, &r.Cost)
	for i := range r.Group {
		into = append(into, &r.Group[i])
	}
	err := rows.Scan(into...)
	r.Start = time.Unix(start, 0).UTC()
	return r, err
}

func sum(what string) string { return sqldb.Sum(what) }

func (q *Query) measures(s *sqldb.Statement) {
	s.Add(", CAST(SUM(requests) - SUM(rejected) AS BIGINT)")
	for _, c := range append(usage.Columns(), "cost") {
		s.Add(", ", sum(c))
	}
	for _, field := range q.GroupBy {
		s.Add(", ", groupColumn(field))
	}
}

func (q *Query) fromAggregates(s *sqldb.Statement) {
	level, start := byHour, "start"
	switch byKey := q.Key != "" || len(q.Keys) > 0 || slices.Contains(q.GroupBy, "api_key_id"); {
	case byKey && q.Width == 24*time.Hour:
		level, start = byHourAndKey, "start / 86400 * 86400"
	case byKey:
		level = byHourAndKey
	case q.Width == 24*time.Hour:
		level = byDay
	}
	s.Add(start)
	q.measures(s)
	s.Add(" FROM aggregates")
	s.And("level", "=", level)
	s.And("start", ">=", q.From.Unix())
	s.And("start", "<", q.To.Unix())
}

// detailedRows returns the sums of exchanges.
func (l usageReader) detailedRows(ctx context.Context, q Query) ([]Row, error) {
	sums, width := map[string]*Row{}, int64(q.Width/time.Second)
	columns := []segment.Column{segment.StartedAt, segment.Organization, segment.Project, segment.User, segment.Key,
		segment.Model, segment.Provider, segment.Batch, segment.Outcome, segment.Requests, segment.Cost}
	for k := range usage.Kinds {
		columns = append(columns, segment.UsedColumn(k))
	}
	query := segment.Query{From: q.From.UnixMicro(), To: q.To.UnixMicro(), Where: q.where(), Columns: columns}
	err := l.each(ctx, query, func() { clear(sums) }, func(r *segment.Row) {
		start := r.StartedAt / (width * 1e6) * width
		group := make([]string, len(q.GroupBy))
		for i, field := range q.GroupBy {
			if group[i] = r.Text(columnOf(field)); field == "batch" {
				group[i] = strconv.FormatInt(flag(r.Batch), 10)
			}
		}
		key := strconv.FormatInt(start, 10) + "\x00" + strings.Join(group, "\x00")
		x := sums[key]
		if x == nil {
			x = &Row{Start: time.Unix(start, 0).UTC(), Group: group}
			sums[key] = x
		}
		if r.Outcome != "rejected" {
			x.Requests += r.Requests
		}
		for k := range usage.Kinds {
			x.Used[k] += r.Used[k]
		}
		x.Cost += usage.Nano(r.Cost)
	})
	if err != nil {
		return nil, fmt.Errorf("reading usage: %w", err)
	}
	var all []Row
	for _, x := range sums {
		if x.Requests > 0 || x.Cost > 0 {
			all = append(all, *x)
		}
	}
	if len(all) > MaxRows {
		return nil, errTooMany()
	}
	slices.SortFunc(all, func(a, b Row) int { return cmp.Or(a.Start.Compare(b.Start), slices.Compare(a.Group, b.Group)) })
	return all, nil
}

// where returns the conditions on exchanges.
func (q *Query) where() segment.Condition {
	all := []segment.Condition{unrefused()}
	among := func(c segment.Column, values ...string) {
		if len(values) > 0 && values[0] != "" {
			all = append(all, segment.Equal(c, values...))
		}
	}
	among(segment.Organization, q.Organization)
	among(segment.Project, q.Project)
	among(segment.Key, q.Key)
	among(segment.Project, q.Projects...)
	among(segment.User, q.Users...)
	among(segment.Key, q.Keys...)
	among(segment.Model, q.Models...)
	if q.Batch != nil {
		all = append(all, segment.Between(segment.Batch, flag(*q.Batch), flag(*q.Batch)))
	}
	switch q.Resource {
	case "completions":
		all = append(all, segment.Not(segment.Equal(segment.Operation, "embeddings", "moderations", "realtime")),
			segment.Not(segment.Begins(segment.Operation, "images/", "audio/")))
	case "embeddings", "moderations":
		among(segment.Operation, q.Resource)
	case "images":
		all = append(all, segment.Begins(segment.Operation, "images/"))
	case "audio_speeches":
		among(segment.Operation, "audio/speech")
	case "audio_transcriptions":
		among(segment.Operation, "audio/transcriptions", "audio/translations")
	}
	return segment.All(all...)
}

// Cached returns what response caches did in a time, as [cachesums.Read] says.
func (l usageReader) Cached(ctx context.Context, q cachesums.Query) ([]cachesums.Sums, error) {
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	all, err := cachesums.Read(ctx, l.db, q)
	return all, doing("reading what caches did", err)
}

// A Prompt is how many tokens of a provider's model were read from the provider's own cache and written to it.
type Prompt struct {
	Provider, Upstream     string
	Input, Cached, Written int64
}

// mostPrompts is how many models of providers are read.
const mostPrompts = 100

// Prompts returns the models of providers of which tokens were cached, those of the most tokens first. The time is one
// of whole hours, and of whole days if it is longer than nine days.
func (l usageReader) Prompts(ctx context.Context, q cachesums.Query) ([]Prompt, error) {
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	level, width := byHour, q.Width()
	if width > time.Hour {
		level = byDay
	}
	s := l.db.Statement("SELECT provider, upstream_model, ", sum("input_tokens"), ", ", sum("cached_tokens"), ", ",
		sum("cache_write_tokens"), " FROM aggregates")
	s.And("level", "=", level)
	s.And("start", ">=", q.From.Truncate(width).Unix())
	s.And("start", "<", q.To.Unix())
	s.Equal("organization", q.Organization)
	s.Equal("project", q.Project)
	s.Equal("model", q.Model)
	s.Add(" GROUP BY provider, upstream_model HAVING SUM(cached_tokens) > 0 OR SUM(cache_write_tokens) > 0",
		" ORDER BY SUM(cached_tokens) DESC, 1, 2 LIMIT ", s.Arg(mostPrompts))
	all, err := sqldb.All(ctx, s, l.db.Read, func(p *Prompt) []any {
		return []any{&p.Provider, &p.Upstream, &p.Input, &p.Cached, &p.Written}
	})
	return all, doing("reading what providers cached", err)
}

func (q *Query) conditions(s *sqldb.Statement) {
	// SQLite uses an index with a condition only if the condition is in the query, too.
	if q.Key != "" || len(q.Keys) > 0 {
		s.Condition("api_key <> ''")
	}
	if len(q.Users) > 0 {
		s.Condition("user_id <> ''")
	}
	s.Equal("organization", q.Organization)
	s.Equal("project", q.Project)
	s.Equal("api_key", q.Key)
	s.Among("project", q.Projects)
	s.Among("user_id", q.Users)
	s.Among("api_key", q.Keys)
	s.Among("model", q.Models)
	if q.Batch != nil {
		s.And("batch", "=", flag(*q.Batch))
	}
	switch q.Resource {
	case "completions": // a session of the Realtime API is not one, but its responses are
		s.Condition(
			"operation NOT IN ('embeddings', 'moderations', 'realtime') AND operation NOT LIKE 'images/%' AND operation NOT LIKE 'audio/%'")
	case "embeddings", "moderations":
		s.And("operation", "=", q.Resource)
	case "images":
		s.Condition("operation LIKE 'images/%'")
	case "audio_speeches":
		s.Condition("operation = 'audio/speech'")
	case "audio_transcriptions":
		s.Condition("operation IN ('audio/transcriptions', 'audio/translations')")
	}
}
