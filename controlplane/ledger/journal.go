package ledger

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/controlplane/ledger/tallies"
)

const (
	// foldRows is how many records of this process wait in the journal at most, and foldEvery how long they wait while
	// others come.
	foldRows  = 4096
	foldEvery = time.Second
	// foldBatches is how many batches a transaction folds.
	foldBatches = 200
)

// A folder folds the journal. A batch of records is kept as a row of the journal: that is cheap, and durable. Folding
// takes many batches out of the journal, makes them one segment, and adds them to the sums, in one transaction: a
// batch counts once, whichever process folds it. It happens every second while records come, and before anything is
// read.
type folder struct {
	db    *sqldb.DB
	store *segstore.Store // read by search, each, rewrite and tallied, which fold before
	log   *zap.Logger
	turn  chan struct{} // who folds; it holds one

	guard   sync.Mutex
	waiting map[string][]row // by the batch: what this process has kept, so that it need not read it
	rows    int              // of them
	last    time.Time        // when it was folded last
}

func newFolder(db *sqldb.DB, log *zap.Logger) *folder {
	return &folder{db: db, store: segstore.New(db), log: log, turn: make(chan struct{}, 1), waiting: map[string][]row{}}
}

// search returns the records that a query wants, newest first.
func (f *folder) search(ctx context.Context, q segment.Query) ([]segment.Row, error) {
	if err := f.folded(ctx); err != nil {
		return nil, err
	}
	return f.store.Search(ctx, q)
}

// each calls [segstore.Store.Each].
func (f *folder) each(ctx context.Context, q segment.Query, begin func(), do func(*segment.Row)) error {
	if err := f.folded(ctx); err != nil {
		return err
	}
	return f.store.Each(ctx, q, begin, do)
}

// tallied calls [tallies.Store.Read].
func (f *folder) tallied(ctx context.Context, q *tallies.Query, rest segment.Query, begin func(),
	sum func(*tallies.Row), row func(*segment.Row)) error {
	if err := f.folded(ctx); err != nil {
		return err
	}
	return f.tallies().Read(ctx, q, rest, begin, sum, row)
}

func (f *folder) tallies() tallies.Store { return tallies.Store{DB: f.db, Segments: f.store} }

// rewrite calls [segstore.Store.Rewrite].
func (f *folder) rewrite(ctx context.Context, q segment.Query, change func(*segment.Row) (keep bool)) (int64, error) {
	if err := f.folded(ctx); err != nil {
		return 0, err
	}
	return f.store.Rewrite(ctx, q, change)
}

// put keeps a batch in the journal.
func (f *folder) put(ctx context.Context, tx *sql.Tx, batch string, rows []row) error {
	r := &ledgerv1.RecordRequest{Records: make([]*ledgerv1.Record, len(rows))}
	for i := range rows {
		r.Records[i] = rows[i].Record
	}
	records, err := proto.Marshal(r)
	if err != nil {
		return err
	}
	return f.write(ctx, tx, batch, records, false)
}

func (f *folder) write(ctx context.Context, tx *sql.Tx, batch string, records []byte, unreadable bool) error {
	s := f.db.Statement("INSERT INTO journal (id, records, unreadable) VALUES (")
	s.Add(s.Arg(batch), ", ", s.Arg(records), ", ", s.Arg(flag(unreadable)), ")")
	_, err := s.Exec(ctx, tx)
	return err
}

// wait remembers a batch that was kept, and folds what has waited for long enough. It needs no answer: whoever reads
// folds what is left.
func (f *folder) wait(ctx context.Context, batch string, rows []row) {
	f.guard.Lock()
	if f.rows += len(rows); len(f.waiting) == 0 {
		f.last = time.Now()
	}
	f.waiting[batch] = rows
	due := f.rows >= foldRows || time.Since(f.last) >= foldEvery
	f.guard.Unlock()
	if !due {
		return
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
		_ = f.fold(ctx) // whoever reads meets the error
	default: // somebody does
	}
}

// folded folds all records that were kept before it was called, by any process. What comes meanwhile is not waited
// for: it may come faster than it is folded.
func (f *folder) folded(ctx context.Context) error {
	batches, err := f.batches(ctx)
	if err != nil || len(batches) == 0 {
		return doing("looking for records that are in no sum", err)
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return doing("adding records to the sums", f.fold(ctx))
}

// batches returns the ids of the batches in the journal.
func (f *folder) batches(ctx context.Context) ([]string, error) {
	s := f.db.Statement("SELECT id FROM journal WHERE unreadable = 0 ORDER BY id")
	return sqldb.All(ctx, s, f.db.Read, func(id *string) []any { return []any{id} })
}

// fold folds the batches that there are when it begins. The caller has the turn.
func (f *folder) fold(ctx context.Context) error {
	f.guard.Lock()
	known := maps.Clone(f.waiting) // before the journal is listed: what is not in that list, others have folded
	f.last = time.Now()
	f.guard.Unlock()
	batches, err := f.batches(ctx)
	if err = errors.Join(err, f.db.Prepare(ctx, inserts()...)); err != nil {
		return err
	}
	for some := range slices.Chunk(batches, foldBatches) {
		err := f.db.Transact(ctx, func(tx *sql.Tx) error {
			rows, err := f.take(ctx, tx, some, known)
			if err != nil || len(rows) == 0 {
				return err
			}
			if err := f.addSegments(ctx, tx, rows); err != nil {
				return err
			}
			return f.addSums(ctx, tx, rows)
		})
		if err != nil {
			return err
		}
	}
	f.guard.Lock()
	defer f.guard.Unlock()
	for batch, rows := range known {
		f.rows -= len(rows)
		delete(f.waiting, batch)
	}
	return nil
}

// addSegments keeps rows as segments: one, unless there are very many.
func (f *folder) addSegments(ctx context.Context, tx *sql.Tx, rows []row) error {
	for some := range slices.Chunk(rows, segment.GroupRows) {
		all := make([]segment.Row, len(some))
		for i := range some {
			all[i] = some[i].segmentRow()
		}
		if err := f.store.Add(ctx, tx, all); err != nil {
			return err
		}
	}
	return nil
}

// take removes batches from the journal, and returns their records. Where others take some, it waits until they have.
// A batch that cannot be read stays, and is not tried again.
func (f *folder) take(ctx context.Context, tx *sql.Tx, ids []string, known map[string][]row) (rows []row, err error) {
	type batch struct {
		id      string
		records []byte
	}
	var unreadable []batch
	err = f.takeEach(ctx, tx, ids, known, func(found *sql.Rows) error {
		var b batch
		if err := found.Scan(&b.id, &b.records); err != nil {
			return err
		}
		if kept, ok := known[b.id]; ok {
			rows = append(rows, kept...)
			return nil
		}
		var r ledgerv1.RecordRequest
		if err := proto.Unmarshal(b.records, &r); err != nil {
			f.log.Error("records of the ledger's journal cannot be read, and are in no sum", zap.String("batch", b.id),
				zap.Error(err))
			unreadable = append(unreadable, b)
			return nil
		}
		for _, x := range r.GetRecords() {
			rows = append(rows, row{x, x.GetStart().AsTime(), x.GetEnd().AsTime().Sub(x.GetStart().AsTime())})
		}
		return nil
	})
	for _, b := range unreadable {
		if err == nil {
			err = f.write(ctx, tx, b.id, b.records, true)
		}
	}
	return rows, err
}

// takeEach removes batches from the journal, and calls each with the id and the records of every one. A batch that
// is known has no records.
func (f *folder) takeEach(ctx context.Context, tx *sql.Tx, ids []string, known map[string][]row,
	each func(*sql.Rows) error) error {
	s := f.db.Statement("DELETE FROM journal WHERE id IN (SELECT id FROM journal WHERE unreadable = 0 AND id IN (")
	s.Add(s.List(ids), ")")
	if f.db.Postgres {
		s.Add(" ORDER BY id FOR UPDATE")
	}
	s.Add(") RETURNING id, ")
	have := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return known[id] == nil })
	if len(have) > 0 {
		s.Add("CASE WHEN id IN (", s.List(have), ") THEN NULL ELSE records END")
	} else {
		s.Add("records")
	}
	return s.Each(ctx, tx, each)
}
