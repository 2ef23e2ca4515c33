package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// mostBuckets is how many buckets a series has at most: a day by minute.
	mostBuckets = 1440
	// mostGroups is how many groups a series names at most.
	mostGroups = 10_000
)

// Series returns sums over time, as [adminapi.SeriesQuery] asks for them. It returns an error of OpenAI's if the
// query is wrong.
func (l usageReader) Series(ctx context.Context, query url.Values) (adminapi.Series, error) {
	q, err := l.seriesQuery(query)
	if err != nil {
		return adminapi.Series{}, err
	}
	out, err := q.answer(ctx)
	return out, doing("reading usage over time", err)
}

// A seriesQuery is one that was read.
type seriesQuery struct {
	reader           usageReader
	from, to, now    time.Time
	width            time.Duration
	by, order        string
	groups, detailed int
	equal            map[string][]string // columns, and the values that one must have
}

// seriesFields are the columns by which a series can be grouped.
var seriesFields = map[string]string{"model": "model", "key": "api_key", "organization": "organization",
	"project": "project", "provider": "provider", "user": "user_id"}

func (l usageReader) seriesQuery(query url.Values) (*seriesQuery, error) {
	r := params.Of(query)
	now := l.db.Now().UTC()
	end := r.Unix("end", now.Unix()+1)
	start := r.Unix("start", max(end-24*60*60, 0))
	q := &seriesQuery{reader: l, now: now, by: r.One("by"), order: r.One("order"), width: bucketWidth(r),
		groups: int(r.Number("groups", 100, 0, mostGroups)), detailed: int(r.Number("detailed", 5, 0, mostGroups)),
		equal: map[string][]string{}}
	for _, name := range []string{"model", "key", "organization", "project", "provider", "user"} {
		if list := r.List(name); len(list) > 0 {
			q.equal[seriesFields[name]] = list
		}
	}
	if q.by != "" && seriesFields[q.by] == "" {
		r.Fail(openai.CodeInvalidValue.On("by",
			"Invalid value for 'by': it must be model, key, organization, project, provider or user."))
	}
	if !slices.Contains([]string{"", "cost", "tokens", "requests", "errors"}, q.order) {
		r.Fail(openai.CodeInvalidValue.On("order",
			"Invalid value for 'order': it must be cost, tokens, requests or errors."))
	}
	r.Unknown()
	if r.Err != nil {
		return nil, r.Err
	}
	q.from, q.to = time.Unix(start, 0).UTC().Truncate(q.width),
		time.Unix(end-1, 0).UTC().Truncate(q.width).Add(q.width)
	if end <= start || q.to.Sub(q.from)/q.width > mostBuckets {
		return nil, openai.CodeInvalidValue.On("end", "Invalid value for 'end': it must be after 'start', with at most %d times 'width' between.",
			mostBuckets)
	}
	return q, nil
}

// bucketWidth reads the width of buckets.
func bucketWidth(r *params.Reader) time.Duration {
	widths := map[string]time.Duration{"": time.Hour, "1m": time.Minute, "5m": 5 * time.Minute, "1h": time.Hour,
		"1d": 24 * time.Hour}
	width, ok := widths[r.One("width")]
	if !ok {
		r.Fail(openai.CodeInvalidValue.On("width",
			"Invalid value for 'width': it must be 1m, 5m, 1h or 1d."))
		return time.Hour
	}
	return width
}

// answer asks up to three times: for everything by bucket, for the groups, and for the largest groups by bucket. Where
// there are few groups, it asks once.
func (q *seriesQuery) answer(ctx context.Context) (adminapi.Series, error) {
	out := adminapi.Series{Start: q.from, End: q.to, WidthSeconds: int64(q.width / time.Second), By: q.by,
		Groups: []adminapi.SeriesGroup{}}
	if from := q.source(q.by); from.few(q.by) && q.groups > 0 {
		return out, q.addAtOnce(ctx, from, &out)
	}
	all, buckets, err := q.buckets(ctx, q.source(""))
	out.Totals, out.Buckets = all.totals(), buckets
	if err != nil || q.by == "" || q.groups == 0 {
		return out, err
	}
	return out, q.addGroups(ctx, q.source(q.by), &all, &out)
}

// buckets returns the sum of everything, and all buckets, also those of nothing.
func (q *seriesQuery) buckets(ctx context.Context, from source) (all sums, list []adminapi.SummaryHour, err error) {
	byStart := map[int64]*sums{}
	err = q.read(ctx, from, "", nil, "", func(start int64, _ string, s *sums, _ int64) {
		all.add(s)
		byStart[start] = s
	})
	return all, q.list(byStart), err
}

// list returns all buckets, also those of nothing.
func (q *seriesQuery) list(byStart map[int64]*sums) (list []adminapi.SummaryHour) {
	for at := q.from; at.Before(q.to); at = at.Add(q.width) {
		s := cmp.Or(byStart[at.Unix()], &sums{})
		list = append(list, adminapi.SummaryHour{Start: at, Totals: s.totals()})
	}
	return list
}

// addAtOnce adds everything to an answer that is read from a source of few groups.
func (q *seriesQuery) addAtOnce(ctx context.Context, from source, out *adminapi.Series) error {
	var all sums
	byStart, groups, buckets := map[int64]*sums{}, map[string]*sums{}, map[string][]adminapi.SummaryHour{}
	err := q.read(ctx, from, q.by, nil, "", func(start int64, name string, s *sums, _ int64) {
		all.add(s)
		addTo(byStart, start, s)
		addTo(groups, name, s)
		buckets[name] = append(buckets[name], adminapi.SummaryHour{Start: time.Unix(start, 0).UTC(), Totals: s.totals()})
	})
	out.Totals, out.Buckets = all.totals(), q.list(byStart)
	names := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(slices.Compare(q.rank(groups[b]), q.rank(groups[a])), strings.Compare(a, b))
	})
	for i, name := range names[:min(len(names), q.groups)] {
		g := adminapi.SeriesGroup{Name: name, Totals: groups[name].totals()}
		if i < q.detailed {
			g.Buckets = buckets[name]
		}
		out.Groups = append(out.Groups, g)
	}
	out.GroupsLeftOut = int64(len(names) - len(out.Groups))
	return err
}

// addTo adds sums to those of a place.
func addTo[K comparable](all map[K]*sums, at K, s *sums) {
	if all[at] == nil {
		all[at] = &sums{}
	}
	all[at].add(s)
}

// addGroups adds the groups to an answer. What has no group, where sums do not tell of it, is what remains of all.
func (q *seriesQuery) addGroups(ctx context.Context, from source, all *sums, out *adminapi.Series) error {
	total, rest := int64(0), *all
	err := q.read(ctx, from, q.by, nil, q.ordered(from), func(_ int64, name string, s *sums, groups int64) {
		total = groups
		for i := range rest {
			rest[i] -= s[i]
		}
		out.Groups = append(out.Groups, adminapi.SeriesGroup{Name: name, Totals: s.totals()})
	})
	if err != nil {
		return err
	}
	out.GroupsLeftOut = max(total-int64(len(out.Groups)), 0)
	top := map[string]*adminapi.SeriesGroup{}
	var names []string
	for i := range out.Groups[:min(q.detailed, len(out.Groups))] {
		top[out.Groups[i].Name] = &out.Groups[i]
		names = append(names, out.Groups[i].Name)
	}
	if len(names) > 0 {
		err = q.read(ctx, from, q.by, names, "", func(start int64, name string, s *sums, _ int64) {
			g := top[name]
			g.Buckets = append(g.Buckets, adminapi.SummaryHour{Start: time.Unix(start, 0).UTC(), Totals: s.totals()})
		})
	}
	if from.field != 0 && out.GroupsLeftOut == 0 && rest[requests] > 0 {
		clear(rest[latency:])
		out.Groups = append(out.Groups, adminapi.SeriesGroup{Totals: rest.totals()})
	}
	return err
}

// ordered is the order of groups, and how many there are. Of groups with as many errors, the most expensive is first.
func (q *seriesQuery) ordered(from source) string {
	by := map[string]string{"": "cost", "cost": "cost", "tokens": "input_tokens) + SUM(output_tokens",
		"requests": "requests"}[q.order]
	i := slices.IndexFunc(from.measures, func(m measured) bool { return m.measure == failed })
	if q.order == "errors" && i >= 0 { // exchanges are ordered by rank
		by = from.measures[i].of + ") DESC, SUM(cost"
	}
	return fmt.Sprintf(" ORDER BY SUM(%s) DESC, 2 LIMIT %d", by, q.groups)
}

// read calls f for the sums of each bucket and group. With an order there is one bucket, and f gets the number of all
// groups. With names, only those groups are read.
func (q *seriesQuery) read(ctx context.Context, from source, by string, names []string, order string,
	f func(start int64, name string, s *sums, groups int64)) error {
	if from.table == "exchanges" || from.table == "tallies" {
		return q.readExchanges(ctx, from, by, names, order != "", f)
	}
	if err := q.reader.folded(ctx); err != nil {
		return err
	}
	group, bucket, grouped := from.group(by), from.bucket(q.width), "bucket, what ORDER BY bucket"
	minus := func(x stretch) bool { return x.minus }
	switch {
	case order != "" && slices.ContainsFunc(from.stretches(q, false), minus): // of a group all may be taken away
		bucket, grouped = "0", "what HAVING SUM(requests) <> 0 OR SUM(cost) <> 0"+order
	case order != "":
		bucket, grouped = "0", "what"+order
	case by == "":
		grouped = "bucket"
	}
	s := q.reader.db.Statement("SELECT ", bucket, " AS bucket, ", group, " AS what, COUNT(*) OVER () AS many")
	for _, c := range from.measures {
		s.Add(", ", sum(c.of))
	}
	from.rows(s, q, order == "")
	from.bound(s, q)
	if len(names) > 0 {
		s.Condition(group + " IN (" + s.List(names) + ")")
	}
	if len(names) > 0 || len(q.equal) > 0 {
		from.each(s, q, order == "")
	}
	s.Add(" GROUP BY ", grouped)
	return s.Each(ctx, q.reader.db.Read, func(rows *sql.Rows) error {
		var start, groups int64
		var name string
		var found sums
		into := []any{&start, &name, &groups}
		for _, c := range from.measures {
			into = append(into, &found[c.measure])
		}
		err := rows.Scan(into...)
		f(start, name, &found, groups)
		return err
	})
}

// readExchanges is read, from exchanges, or from tallies of users and the exchanges that are in none.
func (q *seriesQuery) readExchanges(ctx context.Context, from source, by string, names []string, ordered bool,
	f func(start int64, name string, s *sums, groups int64)) error {
	found, width := map[seriesPlace]*sums{}, int64(q.width/time.Second)
	query := segment.Query{From: q.from.UnixMicro(), To: q.to.UnixMicro(), Where: q.where(),
		Columns: []segment.Column{segment.StartedAt, segment.Organization, segment.Project, segment.User, segment.Key,
			segment.Model, segment.Provider, segment.Status, segment.Outcome, segment.Requests, segment.Cost,
			segment.UsedColumn(usage.InputTokens), segment.UsedColumn(usage.CachedTokens),
			segment.UsedColumn(usage.OutputTokens)}}
	add := func(start int64, name string, n *sums) {
		at := seriesPlace{name: name}
		if len(names) > 0 && !slices.Contains(names, at.name) {
			return
		}
		if !ordered {
			at.start = start / width * width
		}
		addTo(found, at, n)
	}
	begin, row := func() { clear(found) }, func(r *segment.Row) {
		add(r.StartedAt/1e6, seriesGroup(r, by), exchangeSums(r))
	}
	var err error
	if from.table == "tallies" {
		err = q.reader.tallied(ctx, q.tallied(), query, begin, func(r *tallies.Row) {
			if r.Class != tallies.Refused {
				add(r.Start, r.Group(by), talliedSums(r))
			}
		}, row)
	} else {
		err = q.reader.each(ctx, query, begin, row)
	}
	if err != nil {
		return err
	}
	all := slices.SortedFunc(maps.Keys(found), func(a, b seriesPlace) int {
		if ordered {
			return cmp.Or(slices.Compare(q.rank(found[b]), q.rank(found[a])), strings.Compare(a.name, b.name))
		}
		return cmp.Or(cmp.Compare(a.start, b.start), strings.Compare(a.name, b.name))
	})
	groups := int64(len(all))
	if ordered {
		all = all[:min(len(all), q.groups)]
	}
	for _, p := range all {
		f(p.start, p.name, found[p], groups)
	}
	return nil
}

// exchangeSums returns what an exchange adds to the sums, without its latency.
func exchangeSums(r *segment.Row) *sums {
	s := &sums{requests: r.Requests, cost: r.Cost}
	if (adminapi.Exchange{Status: int(r.Status), Outcome: r.Outcome}).Failed() {
		s[failed] = r.Requests
	}
	for _, k := range []usage.Kind{usage.InputTokens, usage.CachedTokens, usage.OutputTokens} {
		s[used+int(k)] = r.Used[k]
	}
	return s
}

// tallied is the query of the tallies of users.
func (q *seriesQuery) tallied() *tallies.Query {
	return &tallies.Query{Kind: tallies.OfUsers, Names: q.equal["user_id"], From: q.from, To: q.to, Width: q.width,
		Where:  map[string][]string{"model": q.equal["model"], "provider": q.equal["provider"]},
		Status: tallies.Any, Class: tallies.Any}
}

func talliedSums(r *tallies.Row) *sums {
	s := &sums{requests: r.Requests, cost: r.Cost, used + int(usage.InputTokens): r.Input,
		used + int(usage.CachedTokens): r.Cached, used + int(usage.OutputTokens): r.Output}
	if r.Class == tallies.Failed {
		s[failed] = r.Requests
	}
	return s
}

// A seriesPlace is a bucket of a group.
type seriesPlace struct {
	start int64
	name  string
}

// rank returns by what groups are ordered.
func (q *seriesQuery) rank(s *sums) []int64 {
	switch q.order {
	case "tokens":
		return []int64{s[used+int(usage.InputTokens)] + s[used+int(usage.OutputTokens)]}
	case "requests":
		return []int64{s[requests]}
	case "errors":
		return []int64{s[failed], s[cost]}
	}
	return []int64{s[cost]}
}

func seriesGroup(r *segment.Row, by string) string {
	switch {
	case by == "":
		return ""
	case by == "project" && r.Project != "":
		return r.Organization + "/" + r.Project
	}
	return r.Text(columnOf(by))
}

// where returns the conditions on exchanges.
func (q *seriesQuery) where() segment.Condition {
	all := []segment.Condition{unrefused()}
	for name, column := range seriesFields {
		list := q.equal[column]
		if len(list) == 0 {
			continue
		}
		if name != "project" {
			all = append(all, segment.Equal(columnOf(name), list...))
			continue
		}
		var some []segment.Condition
		for _, name := range list {
			organization, project, whole := strings.Cut(name, "/")
			if !whole {
				some = append(some, segment.Equal(segment.Project, name))
				continue
			}
			some = append(some, segment.All(segment.Equal(segment.Organization, organization),
				segment.Equal(segment.Project, project)))
		}
		all = append(all, segment.Any(some...))
	}
	return segment.All(all...)
}
