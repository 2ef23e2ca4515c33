package ledger

import (
	"context"
	"fmt"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// maxSummary is the longest time that a summary is of.
	maxSummary = 32 * 24 * time.Hour
	// mostNamed is how many models and providers a summary names.
	mostNamed = 10
)

// Summary sums up the exchanges of a time. The filters are start and end (Unix seconds, extended to whole hours;
// default the last 24 hours), organization, project, key, model and provider. Latencies count finished
// exchanges, right within a factor of 1.6. It returns an error of OpenAI's if the options are wrong.
func (l usageReader) Summary(ctx context.Context, o adminapi.ListOptions) (adminapi.Summary, error) {
	q, err := l.summaryQuery(o)
	if err != nil {
		return adminapi.Summary{}, err
	}
	none := []adminapi.NamedTotals{}
	out := adminapi.Summary{Start: q.from, End: q.to, Models: none, Providers: none}
	from := ofLevel(q.level())
	var all sums
	if all, out.Hours, err = q.buckets(ctx, from); err != nil {
		return out, fmt.Errorf("reading the summary: %w", err)
	}
	out.Totals = all.totals()
	for by, into := range map[string]*[]adminapi.NamedTotals{"model": &out.Models, "provider": &out.Providers} {
		order := fmt.Sprint(" ORDER BY SUM(cost) DESC, SUM(requests) DESC, what LIMIT ", mostNamed)
		err := q.read(ctx, from, by, nil, order, func(_ int64, name string, s *sums, _ int64) {
			*into = append(*into, adminapi.NamedTotals{Name: name, Totals: s.totals()})
		})
		if err != nil {
			return out, fmt.Errorf("reading the summary: %w", err)
		}
	}
	return out, nil
}

func (s *sums) totals() adminapi.Totals {
	return adminapi.Totals{Requests: s[requests], Errors: s[failed], InputTokens: s[used+int(usage.InputTokens)],
		CachedTokens: s[used+int(usage.CachedTokens)], OutputTokens: s[used+int(usage.OutputTokens)],
		CostUSD: usage.Nano(s[cost]).String(), LatencyP50: s.percentile(0.5), LatencyP95: s.percentile(0.95)}
}

func (l usageReader) summaryQuery(o adminapi.ListOptions) (*seriesQuery, error) {
	r := params.OfOptions(o)
	now := l.db.Now().Unix()
	end := r.Unix("end", now+1)
	start := r.Unix("start", max(end-24*60*60, 0))
	q := &seriesQuery{reader: l, width: time.Hour, from: time.Unix(start, 0).UTC().Truncate(time.Hour),
		to: time.Unix(end-1, 0).UTC().Truncate(time.Hour).Add(time.Hour), equal: map[string][]string{}}
	for _, name := range []string{"organization", "project", "key", "model", "provider"} {
		if value := text(r.One(name)); value != "" {
			q.equal[seriesFields[name]] = []string{value}
		}
	}
	r.Unknown()
	if r.Err == nil && (end <= start || q.to.Sub(q.from) > maxSummary) {
		r.Fail(openai.CodeInvalidValue.On("end",
			"Invalid value for 'end': it must be after 'start', and at most %d days.", int(maxSummary.Hours()/24)))
	}
	return q, r.Err
}

// level returns the smallest level of hours that knows what is asked of it, with latencies.
func (q *seriesQuery) level() int64 {
	switch {
	case q.equal["api_key"] != nil:
		return byHourAndKey
	case q.equal["organization"] != nil, q.equal["project"] != nil:
		return byHour
	}
	return ofAll
}
