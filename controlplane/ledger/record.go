package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/cachesums"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// maxCost bounds what one record is believed to have cost, so that sums do not overflow: a million dollars.
	maxCost = 1e15
	// maxAhead is how far clocks of others may be ahead.
	maxAhead = 5 * time.Minute
	// maxBatch is how many records of several calls are kept in one transaction.
	maxBatch = 5000
)

// Record keeps records, each once: one whose id is known is ignored. All of them are durable when it returns without
// an error. What a record says is never refused; what cannot be is made the nearest that can.
func (l *writer) Record(ctx context.Context, records []*ledgerv1.Record) error {
	if err := ctx.Err(); err != nil || len(records) == 0 {
		return err
	}
	if l.db.Postgres {
		return l.keep(ctx, records)
	}
	c, first := l.enqueue(records)
	if first {
		l.keepAll(context.WithoutCancel(ctx), c) // the others wait for it
		return c.err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A writer writes records, each once. The folder adds them to the sums.
type writer struct {
	db *sqldb.DB
	*folder
	writes    sync.Mutex // of SQLite: who writes records
	gathering sync.Mutex // guards batch
	batch     *batch     // of SQLite: it waits for its turn, and more may join; or nil
}

// A batch has the records of calls that share a transaction of SQLite, which has one at a time: while it is written,
// the next batch gathers. The more records a transaction has, the less each costs.
type batch struct {
	records []*ledgerv1.Record
	done    chan struct{}
	err     error // once it is done
}

// enqueue adds records to the batch that gathers, and reports whether they are its first.
func (l *writer) enqueue(records []*ledgerv1.Record) (c *batch, first bool) {
	l.gathering.Lock()
	defer l.gathering.Unlock()
	if first = l.batch == nil || len(l.batch.records)+len(records) > maxBatch; first {
		l.batch = &batch{done: make(chan struct{})}
	}
	l.batch.records = append(l.batch.records, records...)
	return l.batch, first
}

// keepAll keeps a batch's records when its turn comes.
func (l *writer) keepAll(ctx context.Context, c *batch) {
	l.writes.Lock()
	defer l.writes.Unlock()
	defer close(c.done)
	l.gathering.Lock()
	if l.batch == c {
		l.batch = nil
	}
	l.gathering.Unlock()
	c.err = l.keep(ctx, c.records)
}

func (l *writer) keep(ctx context.Context, records []*ledgerv1.Record) error {
	rows := l.rows(records)
	if len(rows) == 0 {
		return nil
	}
	err := l.db.Prepare(ctx, inserts()...)
	batch, fresh := id.Bare(), []row(nil)
	if err == nil {
		err = l.db.Transact(ctx, func(tx *sql.Tx) error {
			var err error
			if fresh, err = l.insert(ctx, tx, rows); err != nil || len(fresh) == 0 {
				return err
			}
			return l.put(ctx, tx, batch, fresh)
		})
	}
	if err != nil {
		return fmt.Errorf("keeping %d records in the ledger: %w", len(rows), err)
	}
	if len(fresh) > 0 {
		l.wait(ctx, batch, fresh)
	}
	return nil
}

// inserts are the statements of SQLite that are prepared.
func inserts() []*sqldb.Insert {
	return []*sqldb.Insert{intoIDs, intoAggregates, intoMinutes, intoSums, intoSpent,
		intoProviders, cachesums.Insert(), tallies.Insert(), tallies.InsertOutcomes()}
}

// A row is a record as it is kept.
type row struct {
	*ledgerv1.Record
	at       time.Time
	duration time.Duration
}

// rows returns what is kept of records, by ascending id, so that two transactions with the same ids take them in one
// order. Of several with an id it is the first.
func (l *writer) rows(records []*ledgerv1.Record) []row {
	now := l.db.Now()
	rows := make([]row, 0, len(records))
	for _, r := range records {
		if r.GetId() != "" {
			rows = append(rows, newRow(r, now))
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Id, b.Id) })
	return slices.CompactFunc(rows, func(a, b row) bool { return a.Id == b.Id })
}

func newRow(r *ledgerv1.Record, now time.Time) row {
	kept := &ledgerv1.Record{
		Id: text(r.GetId()), RequestId: text(r.GetRequestId()), Key: text(r.GetKey()),
		Organization: text(r.GetOrganization()), Project: text(r.GetProject()),
		User: text(r.GetUser()), Operation: text(r.GetOperation()), Model: text(r.GetModel()),
		Provider:      text(r.GetProvider()),
		UpstreamModel: text(r.GetUpstreamModel()), Attempts: r.GetAttempts(), Stream: r.GetStream(), Status: r.GetStatus(),
		Outcome:   text(r.GetOutcome()),
		ErrorCode: text(r.GetErrorCode()), FirstByteMs: max(r.GetFirstByteMs(), 0),
		Estimated: r.GetEstimated(), Batch: r.GetBatch(), CostNanoUsd: min(max(r.GetCostNanoUsd(), 0), maxCost),
		Priced:       r.GetPriced(),
		PriceVersion: text(r.GetPriceVersion()), Requests: requestsOf(r),
		Tried:       r.GetTried(),
		AttemptList: keptAttempts(r), RefusedBy: text(r.GetRefusedBy()), KeyHint: text(r.GetKeyHint()),
	}
	if proto.Size(r.GetDetails()) <= maxDetails {
		kept.Details = r.GetDetails()
	}
	if kept.RefusedBy != "" && kept.Outcome == "finished" {
		kept.Outcome = "rejected"
	}
	for k := range usage.Kinds {
		*k.In(kept) = openai.Count(*k.In(r))
	}
	at := now
	// A clock that steps must not move money into a month that has not come or that nobody looks at.
	if start := r.GetStart().AsTime(); r.GetStart().IsValid() && start.Year() >= 2020 && start.Before(now.Add(maxAhead)) {
		at = start
	}
	duration := time.Duration(0)
	if r.GetEnd().IsValid() && r.GetStart().IsValid() {
		duration = max(r.GetEnd().AsTime().Sub(r.GetStart().AsTime()), 0)
	}
	kept.Start, kept.End = timestamppb.New(at), timestamppb.New(at.Add(duration))
	return row{kept, at.UTC(), duration}
}

// requestsOf is how many requests a record counts as.
func requestsOf(r *ledgerv1.Record) int64 {
	if r.GetTried() {
		return 0
	}
	return max(openai.Count(r.GetRequests()), 1)
}

var intoIDs = sqldb.NewInsert("ids", "id, at", "ON CONFLICT (id) DO NOTHING")

// insert notes the ids of rows and returns those that were not there.
func (l *writer) insert(ctx context.Context, tx *sql.Tx, rows []row) ([]row, error) {
	added, err := l.db.Put(ctx, tx, intoIDs, true, len(rows), func(i int, v *sqldb.Values) {
		v.Add(rows[i].Id, rows[i].at.UnixMicro())
	})
	if err != nil || len(added) == len(rows) {
		return rows, err
	}
	fresh := make(map[string]bool, len(added))
	for _, id := range added {
		fresh[id] = true
	}
	return slices.DeleteFunc(rows, func(r row) bool { return !fresh[r.Id] }), nil
}

func text(s string) string { return sqldb.Text(s) }

func flag(b bool) int64 { return sqldb.Flag(b) }
