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
)

// pastAtOnce is how many sums an answer about the past has.
const pastAtOnce = 2000

// Past calls f with what was used by exchanges that began in the day before until, as [ledgerv1.Past] says, some at a
// time. The last hour, which ends are near, is read from the exchanges, by minute; the rest from the sums by hour, or
// where users are told apart, from the exchanges too.
func (l *Ledger) Past(ctx context.Context, until time.Time, users bool, f func([]*ledgerv1.Past) error) error {
	near := until.Add(-time.Hour).Truncate(time.Hour)
	far := until.Add(-24 * time.Hour).Truncate(time.Hour)
	older := l.hours(far, near)
	if users {
		older = l.since(far, near, time.Hour, users)
	}
	for _, s := range []*statement{older, l.since(near, until, time.Minute, users)} {
		if err := l.past(ctx, s, f); err != nil {
			return fmt.Errorf("reading what was used: %w", err)
		}
	}
	return nil
}

// ownRequests are the requests of clients. The parts of a session are in records of their own, and are none.
const ownRequests = "CASE WHEN operation LIKE 'realtime/%' THEN 0 ELSE requests END"

// since sums what began from a time until another, by when it ended.
func (l *Ledger) since(from, until time.Time, width time.Duration, users bool) *statement {
	user := "''"
	if users {
		user = "user_id"
	}
	wide := strconv.FormatInt(width.Microseconds(), 10)
	s := l.statement("SELECT ((at + duration * 1000) / ", wide, " + 1) * ", wide,
		" AS ends, api_key, organization, project, ", user,
		" AS who, model, provider, ", sum(ownRequests), ", ", sum("input_tokens"), ", ", sum("output_tokens"),
		" FROM exchanges")
	s.and("at", ">=", from.UnixMicro())
	s.and("at", "<", until.UnixMicro())
	s.and("batch", "=", 0)
	s.condition(notRefused)
	s.add(" GROUP BY ends, api_key, organization, project, who, model, provider")
	return s
}

// hours sums what began in hours from a time until another.
func (l *Ledger) hours(from, until time.Time) *statement {
	s := l.statement("SELECT (start + 3600) * 1000000 AS ends, api_key, organization, project, '' AS who, model, provider, ",
		sum(ownRequests), ", ", sum("input_tokens"), ", ", sum("output_tokens"), " FROM aggregates")
	s.and("level", "=", byHourAndKey)
	s.and("start", ">=", from.Unix())
	s.and("start", "<", until.Unix())
	s.and("batch", "=", 0)
	s.add(" GROUP BY ends, api_key, organization, project, model, provider")
	return s
}

func (l *Ledger) past(ctx context.Context, s *statement, f func([]*ledgerv1.Past) error) error {
	var some []*ledgerv1.Past
	err := s.each(ctx, l.read, func(rows *sql.Rows) error {
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
