package ledger

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

// pastAtOnce is how many sums an answer about the past has.
const pastAtOnce = 2000

// Past calls f with the use of exchanges that began in the day before until, as [ledgerv1.Past] says, some at a
// time. The last hour is read from the exchanges, by minute, because windows end soon. The rest is read from the
// sums by hour, or with users from the exchanges too.
func (l usageReader) Past(ctx context.Context, until time.Time, users bool, f func([]*ledgerv1.Past) error) error {
	if err := l.folded(ctx); err != nil {
		return err
	}
	near := until.Add(-time.Hour).Truncate(time.Hour)
	far := until.Add(-24 * time.Hour).Truncate(time.Hour)
	if users {
		if err := l.since(ctx, far, near, time.Hour, users, f); err != nil {
			return doing("reading what was used", err)
		}
	} else if err := l.past(ctx, l.hours(far, near), f); err != nil {
		return doing("reading what was used", err)
	}
	return doing("reading what was used", l.since(ctx, near, until, time.Minute, users, f))
}

// ownRequests are the requests of clients. The parts of a session are in records of their own, and are none.
const ownRequests = "CASE WHEN operation LIKE 'realtime/%' THEN 0 ELSE requests END"

// A pastKey identifies a sum of since.
type pastKey struct {
	ends                                              int64
	key, organization, project, user, model, provider string
}

// since sums what began from a time until another, by when it ended.
func (l usageReader) since(ctx context.Context, from, until time.Time, width time.Duration, users bool,
	f func([]*ledgerv1.Past) error) error {
	sums, wide := map[pastKey]*ledgerv1.Past{}, width.Microseconds()
	q := segment.Query{From: from.UnixMicro(), To: until.UnixMicro(),
		Where: segment.All(unrefused(), segment.Between(segment.Batch, 0, 0)),
		Columns: []segment.Column{segment.StartedAt, segment.DurationMS, segment.Key, segment.Organization, segment.Project,
			segment.User, segment.Model, segment.Provider, segment.Operation, segment.Requests,
			segment.UsedColumn(usage.InputTokens), segment.UsedColumn(usage.OutputTokens)}}
	err := l.each(ctx, q, func() { clear(sums) }, func(r *segment.Row) {
		k := pastKey{((r.StartedAt+r.DurationMS*1000)/wide + 1) * wide, r.Key, r.Organization, r.Project, "", r.Model,
			r.Provider}
		if users {
			k.user = r.User
		}
		p := sums[k]
		if p == nil {
			p = &ledgerv1.Past{End: timestamppb.New(time.UnixMicro(k.ends)), Key: k.key, Organization: k.organization,
				Project: k.project, User: k.user, Model: k.model, Provider: k.provider}
			sums[k] = p
		}
		if !strings.HasPrefix(r.Operation, "realtime/") {
			p.Requests += r.Requests
		}
		p.InputTokens += r.Used[usage.InputTokens]
		p.OutputTokens += r.Used[usage.OutputTokens]
	})
	if err != nil {
		return err
	}
	all := slices.SortedFunc(maps.Values(sums), func(a, b *ledgerv1.Past) int {
		return a.GetEnd().AsTime().Compare(b.GetEnd().AsTime())
	})
	for some := range slices.Chunk(all, pastAtOnce) {
		if err := f(some); err != nil {
			return err
		}
	}
	return nil
}

// hours sums what began in hours from a time until another.
func (l usageReader) hours(from, until time.Time) *sqldb.Statement {
	s := l.db.Statement("SELECT (start + 3600) * 1000000 AS ends, api_key, organization, project, '' AS who, model, provider, ",
		sum(ownRequests), ", ", sum("input_tokens"), ", ", sum("output_tokens"), " FROM aggregates")
	s.And("level", "=", byHourAndKey)
	s.And("start", ">=", from.Unix())
	s.And("start", "<", until.Unix())
	s.And("batch", "=", 0)
	s.Add(" GROUP BY ends, api_key, organization, project, model, provider")
	return s
}

func (l usageReader) past(ctx context.Context, s *sqldb.Statement, f func([]*ledgerv1.Past) error) error {
	var some []*ledgerv1.Past
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		p, ends := &ledgerv1.Past{}, int64(0)
		if err := rows.Scan(&ends, &p.Key, &p.Organization, &p.Project, &p.User, &p.Model, &p.Provider, &p.Requests,
			&p.InputTokens, &p.OutputTokens); err != nil {
			return err
		}
		p.End = timestamppb.New(time.UnixMicro(ends))
		if some = append(some, p); len(some) < pastAtOnce {
			return nil
		}
		full := some
		some = nil
		return f(full)
	})
	if err != nil || len(some) == 0 {
		return err
	}
	return f(some)
}

// Past implements [ledgerv1.LedgerServer].
func (s *service) Past(r *ledgerv1.PastRequest, out grpc.ServerStreamingServer[ledgerv1.PastAnswer]) error {
	err := s.ledger.Past(out.Context(), r.GetUntil().AsTime(), r.GetUsers(), func(some []*ledgerv1.Past) error {
		return out.Send(&ledgerv1.PastAnswer{Past: some})
	})
	if err != nil {
		return s.unavailable(out.Context(), err)
	}
	return nil
}
