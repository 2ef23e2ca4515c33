package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
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
	older := l.hours(far, near)
	if users {
		older = l.since(far, near, time.Hour, users)
	}
	for _, s := range []*sqldb.Statement{older, l.since(near, until, time.Minute, users)} {
		if err := l.past(ctx, s, f); err != nil {
			return fmt.Errorf("reading what was used: %w", err)
		}
	}
	return nil
}

// ownRequests are the requests of clients. The parts of a session are in records of their own, and are none.
const ownRequests = "CASE WHEN operation LIKE 'realtime/%' THEN 0 ELSE requests END"

// since sums what began from a time until another, by when it ended.
func (l usageReader) since(from, until time.Time, width time.Duration, users bool) *sqldb.Statement {
	user := "''"
	if users {
		user = "user_id"
	}
	wide := strconv.FormatInt(width.Microseconds(), 10)
	s := l.db.Statement("SELECT ((at + duration * 1000) / ", wide, " + 1) * ", wide,
		" AS ends, api_key, organization, project, ", user,
		" AS who, model, provider, ", sum(ownRequests), ", ", sum("input_tokens"), ", ", sum("output_tokens"),
		" FROM exchanges")
	s.And("at", ">=", from.UnixMicro())
	s.And("at", "<", until.UnixMicro())
	s.And("batch", "=", 0)
	s.Condition(notRefused)
	s.Add(" GROUP BY ends, api_key, organization, project, who, model, provider")
	return s
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
