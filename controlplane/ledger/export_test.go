package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/histogram"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// SetNow sets the clock.
func (l *Ledger) SetNow(now func() time.Time) { l.db.Now = now }

// Query makes a query that ends when f returns.
func (l *Ledger) Query(ctx context.Context, f func()) error {
	return l.db.Statement("SELECT 1").Each(ctx, l.db.Read, func(*sql.Rows) error {
		f()
		return nil
	})
}

// Connections returns how many connections for reading are in use, and how many there are.
func (l *Ledger) Connections() (used, all int) {
	s := l.db.Read.Stats()
	return s.InUse, s.MaxOpenConnections
}

// Sums returns those of all measures but latencies, from the exchanges and from the aggregates of each level.
func (l *Ledger) Sums(ctx context.Context) (exchanges [latency]int64, aggregates [levels][latency]int64, err error) {
	names := columns()[:latency]
	read := func(text string, into *[latency]int64) error {
		return l.db.Statement(text).Each(ctx, l.db.Read, func(rows *sql.Rows) error {
			all := make([]any, latency)
			for i := range all {
				all[i] = &into[i]
			}
			return rows.Scan(all...)
		})
	}
	sum := func(what []string) string {
		return "SELECT CAST(COALESCE(SUM(" + strings.Join(what, "),0) AS BIGINT), CAST(COALESCE(SUM(") + "),0) AS BIGINT)"
	}
	q := segment.Query{Columns: listColumns()}
	if err := l.writer.each(ctx, q, func() { clear(exchanges[:]) }, func(r *segment.Row) {
		exchanges[requests] += r.Requests
		if r.Outcome == "rejected" {
			exchanges[rejected] += r.Requests
		}
		if e := exchangeOf(r); e.Failed() {
			exchanges[failed] += r.Requests
		}
		for k := range usage.Kinds {
			exchanges[used+int(k)] += r.Used[k]
		}
		exchanges[cost] += r.Cost
	}); err != nil {
		return exchanges, aggregates, err
	}
	for level := range aggregates {
		if err := read(sum(names)+" FROM aggregates WHERE level = "+string(rune('0'+level)),
			&aggregates[level]); err != nil {
			return exchanges, aggregates, err
		}
	}
	return exchanges, aggregates, nil
}

// Percentile returns that of latencies.
func Percentile(milliseconds []int64, p float64) int64 {
	var s sums
	for _, ms := range milliseconds {
		s[latency+histogram.Bucket(ms)]++
	}
	return s.percentile(p)
}

// Limit bounds the file of SQLite to what it has and some pages more, as a disk that is full does; negative lifts it.
func (l *Ledger) Limit(ctx context.Context, pages int) error {
	limit := 1 << 30
	if pages >= 0 {
		if err := l.db.Write.QueryRowContext(ctx, "PRAGMA page_count").Scan(&limit); err != nil {
			return err
		}
		limit += pages
	}
	_, err := l.db.Write.ExecContext(ctx, fmt.Sprint("PRAGMA max_page_count = ", limit))
	return err
}

// Block takes the only connection on which SQLite writes, until release is called.
func (l *Ledger) Block(ctx context.Context) (release func() error, err error) {
	tx, err := l.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return tx.Rollback, nil
}

// Merge merges small segments, and makes blobs of those that are to be.
func (l *Ledger) Merge(ctx context.Context) error {
	_, err := l.writer.store.Merge(ctx)
	if err == nil {
		_, err = l.writer.store.ToBlobs(ctx)
	}
	return err
}

// Older makes the tables those of before the twenty-second migration, as the migrations since then would downwards.
func (l *Ledger) Older(ctx context.Context) error {
	for _, s := range []string{"ALTER TABLE spools DROP COLUMN stores_since", "ALTER TABLE spools DROP COLUMN since",
		"DELETE FROM aggregates WHERE level = 4",
		"DROP TABLE tallies", "ALTER TABLE segments DROP COLUMN tallied",
		"DELETE FROM ledger_migrations WHERE version_id >= 22"} {
		if _, err := l.db.Write.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// Tallies returns of which times there are tallies, by their width.
func (l *Ledger) Tallies(ctx context.Context) (starts map[int64][]int64, err error) {
	starts = map[int64][]int64{}
	err = l.db.Statement("SELECT DISTINCT width, start FROM tallies ORDER BY start").Each(ctx, l.db.Read,
		func(rows *sql.Rows) error {
			var width, start int64
			err := rows.Scan(&width, &start)
			starts[width] = append(starts[width], start)
			return err
		})
	return starts, err
}

// HoldSums keeps this ledger from adding records to the sums, until release is called.
func (l *Ledger) HoldSums() (release func()) {
	l.writer.folder.turn <- struct{}{}
	return func() { <-l.writer.folder.turn }
}

// Unfolded returns how many batches of records are in the journal.
func (l *Ledger) Unfolded(ctx context.Context) (n int, err error) {
	err = l.db.Statement("SELECT COUNT(*) FROM journal").Each(ctx, l.db.Read,
		func(rows *sql.Rows) error { return rows.Scan(&n) })
	return n, err
}

// Waiting returns how many records this ledger remembers, so that it need not read them to fold them.
func (l *Ledger) Waiting() (records, batches int) {
	f := l.writer.folder
	f.guard.Lock()
	defer f.guard.Unlock()
	return f.rows, len(f.waiting)
}

// SpoilOne replaces what a batch in the journal has by what nobody can read.
func (l *Ledger) SpoilOne(ctx context.Context) error {
	s := l.db.Statement("UPDATE journal SET records = ")
	s.Add(s.Arg([]byte{0xff}), " WHERE id IN (SELECT id FROM journal LIMIT 1)")
	_, err := s.Exec(ctx, l.db.Write)
	return err
}

// Gathered returns how many records wait to share a transaction, and whether one is written.
func (l *Ledger) Gathered() (records int, writing bool) {
	if writing = !l.writes.TryLock(); !writing {
		l.writes.Unlock()
	}
	l.gathering.Lock()
	defer l.gathering.Unlock()
	if l.batch != nil {
		records = len(l.batch.records)
	}
	return records, writing
}

// SegmentRows returns records as segments have them.
func (l *Ledger) SegmentRows(records []*ledgerv1.Record) (all []segment.Row) {
	for _, r := range l.writer.rows(records) {
		all = append(all, r.segmentRow())
	}
	return all
}

// SearchOf is the search of segments that options ask for.
func SearchOf(o adminapi.ListOptions) (segment.Query, error) { return queryOf(o) }

// Listed returns a row as lists have it, and Whole as the page of one exchange does.
func Listed(r *segment.Row) adminapi.Exchange         { return exchangeOf(r) }
func Whole(r *segment.Row) (adminapi.Exchange, error) { return wholeExchange(r) }
