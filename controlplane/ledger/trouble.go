package ledger

import (
	"context"
	"database/sql"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// rejectedFor is how long it matters that a credential was refused.
const rejectedFor = 15 * time.Minute

// Rejected returns the providers that have refused their credential in the last 15 minutes, by name.
func (l usageReader) Rejected(ctx context.Context) ([]attention.Rejection, error) {
	found := map[string]*attention.Rejection{}
	q := segment.Query{From: l.db.Now().Add(-rejectedFor).UnixMicro(),
		Where: segment.Any(segment.Between(segment.AttemptList+4, 401, 401),
			segment.Between(segment.AttemptList+4, 403, 403)),
		Columns: []segment.Column{segment.StartedAt, segment.AttemptList}}
	err := l.each(ctx, q, func() { clear(found) }, func(r *segment.Row) {
		for i := range r.AttemptList {
			a := &r.AttemptList[i]
			if a.Status != http.StatusUnauthorized && a.Status != http.StatusForbidden {
				continue
			}
			x := found[a.Provider]
			if x == nil {
				x = &attention.Rejection{Provider: a.Provider}
				found[a.Provider] = x
			}
			x.Times++
			x.Last = later(x.Last, r.StartedAt)
		}
	})
	var all []attention.Rejection
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all, doing("reading refused credentials", err)
}

// later returns the later of two times, of which one is in microseconds.
func later(a time.Time, b int64) time.Time {
	if at := time.UnixMicro(b).UTC(); at.After(a) {
		return at
	}
	return a
}

// Unjudged returns the rules of guardrails whose checkers were unavailable in the last 15 minutes, by name.
func (l usageReader) Unjudged(ctx context.Context) ([]attention.Unjudged, error) {
	found := map[string]*attention.Unjudged{}
	q := segment.Query{From: l.db.Now().Add(-rejectedFor).UnixMicro(), Where: segment.All(segment.Not(unrefused()),
		segment.Equal(segment.ErrorCode, string(openai.CodeCheckerUnavailable))),
		Columns: []segment.Column{segment.StartedAt, segment.RefusedBy, segment.Requests}}
	err := l.each(ctx, q, func() { clear(found) }, func(r *segment.Row) {
		x := found[r.RefusedBy]
		if x == nil {
			x = &attention.Unjudged{Rule: strings.TrimPrefix(r.RefusedBy, "guardrail ")}
			found[r.RefusedBy] = x
		}
		x.Times += r.Requests
		x.Last = later(x.Last, r.StartedAt)
	})
	var all []attention.Unjudged
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all, doing("reading what no checker has judged", err)
}

// A Week is what was spent in the 7 days before today and today, UTC.
type Week struct {
	Spent usage.Nano
	// From is when these days begin: later if the subject has spent its first money since.
	From time.Time
}

// Week returns what subjects have spent of late, those that have spent something. At most 1000 can be asked for at
// once. For the names of subjects see [Ledger.SpentBy].
func (l usageReader) Week(ctx context.Context, subjects ...string) (map[string]Week, error) {
	found := map[string]Week{}
	if len(subjects) == 0 {
		return found, nil
	}
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	from := day(l.db.Now()).AddDate(0, 0, -7)
	s := l.db.Statement("SELECT subject, ", sum("cost"), ", MIN(start), CASE WHEN EXISTS (SELECT 1 FROM spent AS older ",
		"WHERE older.subject = spent.subject")
	s.Add(" AND older.period = ", s.Arg(periodDay), " AND older.start < ", s.Arg(from.Unix()))
	s.Add(") THEN 1 ELSE 0 END FROM spent")
	s.Among("subject", subjects)
	s.And("period", "=", periodDay)
	s.And("start", ">=", from.Unix())
	s.Add(" GROUP BY subject")
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var subject string
		var first, before int64
		w := Week{From: from}
		err := rows.Scan(&subject, &w.Spent, &first, &before)
		if before == 0 {
			w.From = time.Unix(first, 0).UTC()
		}
		found[subject] = w
		return err
	})
	return found, doing("reading what was spent in a week", err)
}
