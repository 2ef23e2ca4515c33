package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// maxSummary is the longest time that a summary is of.
	maxSummary = 32 * 24 * time.Hour
	// mostNamed is how many models and providers a summary names.
	mostNamed = 10
)

// Summary sums up the exchanges of a time. The filters are start and end (Unix seconds, extended to whole hours;
// default the last 24 hours), organization, project, key, model and provider. Latencies are those of finished
// exchanges, right within a factor of 1.6. It returns an error of OpenAI's if the options are wrong.
func (l usageReader) Summary(ctx context.Context, o adminapi.ListOptions) (adminapi.Summary, error) {
	q, err := l.summaryQuery(o)
	if err != nil {
		return adminapi.Summary{}, err
	}
	out := adminapi.Summary{Start: q.from, End: q.to, Models: []adminapi.NamedTotals{},
		Providers: []adminapi.NamedTotals{}}
	byStart := map[int64]*sums{}
	err = q.each(ctx, "start", "", func(start int64, _ string, s *sums) { byStart[start] = s })
	if err != nil {
		return out, err
	}
	var all sums
	for at := q.from; at.Before(q.to); at = at.Add(time.Hour) {
		s := byStart[at.Unix()]
		if s == nil {
			s = &sums{}
		}
		all.add(s)
		out.Hours = append(out.Hours, adminapi.SummaryHour{Start: at, Totals: s.totals()})
	}
	out.Totals = all.totals()
	for column, into := range map[string]*[]adminapi.NamedTotals{"model": &out.Models, "provider": &out.Providers} {
		err := q.each(ctx, column, fmt.Sprint(" ORDER BY SUM(cost) DESC, SUM(requests) DESC, ", column, " LIMIT ",
			mostNamed), func(_ int64, name string, s *sums) {
			*into = append(*into, adminapi.NamedTotals{Name: name, Totals: s.totals()})
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (s *sums) totals() adminapi.Totals {
	return adminapi.Totals{Requests: s[requests], Errors: s[failed], InputTokens: s[used+int(usage.InputTokens)],
		CachedTokens: s[used+int(usage.CachedTokens)],
		OutputTokens: s[used+int(usage.OutputTokens)],
		CostUSD:      usage.Nano(s[cost]).String(), LatencyP50: s.percentile(0.5), LatencyP95: s.percentile(0.95)}
}

// summaryFilters are the filters of a summary, with their columns.
func summaryFilters() [][2]string {
	return [][2]string{{"organization", "organization"}, {"project", "project"}, {"key", "api_key"}, {"model", "model"},
		{"provider", "provider"}}
}

type summaryQuery struct {
	reader   usageReader
	from, to time.Time
	equal    [][2]string
	level    int
}

func (l usageReader) summaryQuery(o adminapi.ListOptions) (*summaryQuery, error) {
	r := reader{values: url.Values{}, known: map[string]bool{}}
	for name, value := range o.Filters {
		r.values.Set(name, value)
	}
	now := l.db.Now().Unix()
	end := r.unix("end", now+1)
	start := r.unix("start", max(end-24*60*60, 0))
	q := &summaryQuery{reader: l, from: time.Unix(start, 0).UTC().Truncate(time.Hour),
		to: time.Unix(end-1, 0).UTC().Truncate(time.Hour).Add(time.Hour)}
	q.level = ofAll
	for _, n := range summaryFilters() {
		value := text(r.one(n[0]))
		if value == "" {
			continue
		}
		q.equal = append(q.equal, [2]string{n[1], value})
		switch n[0] {
		case "key":
			q.level = byHourAndKey
		case "organization", "project":
			q.level = min(q.level, byHour)
		}
	}
	r.unknown()
	if r.err == nil && (end <= start || q.to.Sub(q.from) > maxSummary) {
		r.fail(openai.CodeInvalidValue.On("end",
			"Invalid value for 'end': it must be after 'start', and at most %d days.", int(maxSummary.Hours()/24)))
	}
	return q, r.err
}

// each calls f for the sums of each value of a column.
func (q *summaryQuery) each(ctx context.Context, column, order string,
	f func(start int64, name string, s *sums)) error {
	s := q.reader.db.Statement("SELECT ", column)
	for _, c := range columns() {
		s.Add(", ", sum(c))
	}
	s.Add(" FROM aggregates")
	s.And("level", "=", q.level)
	s.And("start", ">=", q.from.Unix())
	s.And("start", "<", q.to.Unix())
	for _, e := range q.equal {
		s.Equal(e[0], e[1])
	}
	if q.level == byHourAndKey {
		s.Condition("api_key <> ''") // as the index has it
	}
	s.Add(" GROUP BY ", column, order)
	err := s.Each(ctx, q.reader.db.Read, func(rows *sql.Rows) error {
		var start int64
		var name string
		found := &sums{}
		into := []any{&name}
		if strings.HasPrefix(column, "start") {
			into[0] = &start
		}
		for i := range found {
			into = append(into, &found[i])
		}
		err := rows.Scan(into...)
		f(start, name, found)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the summary: %w", err)
	}
	return nil
}
