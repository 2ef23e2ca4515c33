package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/ledger/cachesums"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/versions"
	"github.com/modelgate/modelgate/internal/timing"
)

// A Retention is how long things are kept.
type Retention struct {
	// Exchanges is how long exchanges are kept. They answer queries by user or by minute. Default 30 days. A record
	// that is sent again later than that counts again.
	Exchanges time.Duration
	// Refused requests. Default 7 days, and never longer than Exchanges. RefusedRows is how many are kept at most.
	// Default 100,000.
	Refused     time.Duration
	RefusedRows int64
	// Aggregates is how long sums are kept. They answer all other queries. Default 400 days.
	Aggregates time.Duration
	// Audit entries and versions of objects. Default 400 days. The newest of each that is older stays.
	Audit time.Duration
}

const (
	defaultExchanges  = 30 * 24 * time.Hour
	defaultRefused    = 7 * 24 * time.Hour
	defaultRows       = 100_000
	defaultAggregates = 400 * 24 * time.Hour
	// keepSpent is longer than the month that anybody asks of.
	keepSpent = 62 * 24 * time.Hour
	// migrateEvery is how often Maintain tries to bring the tables up to date.
	migrateEvery = 2 * time.Second

	// pruneEvery is how often Maintain prunes.
	pruneEvery = time.Hour
	// idsRead is how many ids are looked for at once.
	idsRead = 20_000
	// mergeEvery is how often Maintain merges segments.
	mergeEvery = 10 * time.Second
)

// Prune deletes what is older than it is to be kept, some rows at a time, and returns how many it has deleted.
func (l *Ledger) Prune(ctx context.Context, keep Retention) (int64, error) {
	if err := l.writer.folded(ctx); err != nil { // what is added later would be old, too
		return 0, err
	}
	now := l.db.Now()
	before := func(keep, usual time.Duration) time.Time {
		if keep <= 0 {
			keep = usual
		}
		return now.Add(-keep)
	}
	exchanges, aggregates, audit := before(keep.Exchanges, defaultExchanges), before(keep.Aggregates,
		defaultAggregates), before(keep.Audit, defaultAggregates)
	total := int64(0)
	for _, part := range []struct {
		name  string
		prune func() (int64, error)
	}{
		{"refused requests", func() (int64, error) {
			return l.pruneRefused(ctx, before(keep.Refused, defaultRefused), cmp.Or(keep.RefusedRows, defaultRows))
		}},
		{"exchanges", func() (int64, error) { return l.pruneExchanges(ctx, exchanges.UnixMicro()) }},
		{"versions of objects", func() (int64, error) { return versions.Prune(ctx, l.db, audit) }},
		{"the audit log", func() (int64, error) { return l.pruneAudit(ctx, audit) }},
		{"aggregates", func() (int64, error) { return l.pruneAggregates(ctx, now, aggregates) }},
		{"sums", func() (int64, error) { return l.pruneSums(ctx, now, aggregates) }},
		{"tallies", func() (int64, error) { return l.writer.tallies().Prune(ctx, exchanges) }},
		{"sums of caches", func() (int64, error) { return cachesums.Prune(ctx, l.db, aggregates) }},
	} {
		n, err := part.prune()
		total += n
		if err != nil {
			return total, fmt.Errorf("pruning %s: %w", part.name, err)
		}
	}
	return total, nil
}

// pruneAggregates deletes old rows of the tables of sums that have row numbers.
func (l *Ledger) pruneAggregates(ctx context.Context, now, aggregates time.Time) (total int64, err error) {
	prune := func(table, column string, value int, before time.Time) {
		if err != nil {
			return
		}
		n, failed := l.db.DeleteAll(ctx, table, func(s *sqldb.Statement) {
			if column != "" {
				s.And(column, "=", value)
			}
			s.And("start", "<", before.Unix())
		})
		total, err = total+n, doing(table, failed)
	}
	prune("spent", "", 0, now.Add(-keepSpent))
	for _, table := range []string{"provider_attempts", "outcomes"} {
		prune(table, "width", minutes, now.Add(-keepMinutes))
		prune(table, "width", hours, aggregates)
	}
	for level := range levels { // as their index has them
		prune("aggregates", "level", level, aggregates)
	}
	return total, err
}

// pruneSums deletes old sums by minute, and of keys and users, those of one time at once: they have no row numbers in
// SQLite.
func (l *Ledger) pruneSums(ctx context.Context, now, aggregates time.Time) (total int64, err error) {
	prune := func(table, of string, before time.Time) {
		for n := int64(1); n > 0 && err == nil; total += n {
			s := l.db.Statement("DELETE FROM ", table, " WHERE ", of, "start = (SELECT MIN(start) FROM ", table, " WHERE ", of,
				"start < ")
			s.Add(s.Arg(before.Unix()), ")")
			n, err = s.Exec(ctx, l.db.Write)
		}
	}
	prune("minutes", "", now.Add(-keepMinutes))
	for field := sumsOfKeys; field <= sumsOfRefused; field++ {
		prune("sums", fmt.Sprintf("field = %d AND width = %d AND ", field, hours), now.Add(-keepNamedHours))
		prune("sums", fmt.Sprintf("field = %d AND width = %d AND ", field, days), aggregates)
	}
	return total, err
}

// pruneRefused deletes refused requests from before a time, and all but the newest rows of the others.
func (l *Ledger) pruneRefused(ctx context.Context, before time.Time, rows int64) (int64, error) {
	oldest := before.UnixMicro()
	var times []int64
	q := segment.Query{Where: segment.Not(unrefused()), Columns: []segment.Column{segment.StartedAt}}
	err := l.writer.each(ctx, q, func() { times = nil }, func(r *segment.Row) { times = append(times, r.StartedAt) })
	if err != nil {
		return 0, err
	}
	if n := int64(len(times)); n >= rows {
		slices.Sort(times)
		oldest = max(oldest, times[n-rows])
	}
	q.To = oldest
	return l.writer.rewrite(ctx, q, func(*segment.Row) bool { return false })
}

// pruneExchanges deletes exchanges from before a time: whole segments, and a part of those around the time.
func (l *Ledger) pruneExchanges(ctx context.Context, before int64) (int64, error) {
	n, err := l.writer.store.Drop(ctx, before)
	if err != nil {
		return n, err
	}
	if err := l.writer.store.Sweep(ctx); err != nil {
		return n, err
	}
	more, err := l.writer.rewrite(ctx, segment.Query{To: before}, func(*segment.Row) bool { return false })
	if err == nil {
		err = l.pruneIDs(ctx, before)
	}
	return n + more, err
}

// pruneIDs deletes the ids of exchanges from before a time. It looks at all ids: an index by time would cost more with
// each record.
func (l *Ledger) pruneIDs(ctx context.Context, before int64) error {
	for n := idsRead; n == idsRead; {
		s := l.db.Statement("SELECT id FROM ids")
		s.And("at", "<", before)
		s.Add(" LIMIT ", s.Arg(idsRead))
		old, err := sqldb.All(ctx, s, l.db.Read, func(id *string) []any { return []any{id} })
		n = len(old)
		for some := range slices.Chunk(old, sqldb.RowsAtOnce) {
			if err == nil {
				s := l.db.Statement("DELETE FROM ids")
				s.Among("id", some)
				_, err = s.Exec(ctx, l.db.Write)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Maintain brings the tables up to date, where that could not be done when the ledger was opened, and prunes once an
// hour until ctx ends. While it is not known how long things are to be kept, nothing is deleted.
func (l *Ledger) Maintain(ctx context.Context, retention func(context.Context) (Retention, error)) {
	l.catchUp(ctx)
	var merging sync.WaitGroup
	defer merging.Wait()
	merging.Go(func() {
		_ = timing.Every(ctx, mergeEvery, func() {
			err := l.Tally(ctx, false)
			if err == nil {
				_, err = l.writer.store.Merge(ctx)
			}
			if err == nil {
				_, err = l.writer.store.ToBlobs(ctx)
			}
			if err != nil && ctx.Err() == nil {
				l.log.Warn("merging segments of the ledger", zap.Error(err))
			}
		})
	})
	_ = timing.Every(ctx, pruneEvery, func() {
		var n int64
		keep, err := retention(ctx)
		if err == nil {
			n, err = l.Prune(ctx, keep)
		}
		switch {
		case err != nil && ctx.Err() == nil:
			l.log.Warn("pruning the ledger", zap.Error(err))
		case n > 0:
			l.log.Info("pruned the ledger", zap.Int64("rows", n))
		}
	})
}

// Tally adds exchanges to the tallies if they are enough, or if they have waited for long enough, or all of them.
func (l *Ledger) Tally(ctx context.Context, all bool) error {
	err := l.writer.folded(ctx)
	if err == nil {
		err = l.db.Prepare(ctx, inserts()...)
	}
	if err == nil {
		err = l.writer.tallies().Tally(ctx, all)
	}
	return doing("adding exchanges to the tallies", err)
}

// catchUp brings the tables up to date as soon as the database can be reached.
func (l *Ledger) catchUp(ctx context.Context) {
	for l.outdated {
		if timing.Sleep(ctx, migrateEvery) != nil {
			return
		}
		err := l.migrate(ctx)
		switch {
		case err == nil:
			l.outdated = false
			l.trouble.Store(nil)
			l.log.Info("the ledger's database can be used")
		case !sqldb.IsAway(err) && ctx.Err() == nil && err.Error() != l.Ready().Error():
			l.log.Error("the ledger cannot be used", zap.String("file", l.db.File), zap.Error(err))
			l.trouble.Store(&err)
		}
	}
}
