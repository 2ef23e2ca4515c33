// Package segstore keeps segments of the ledger in its database: a batch of exchanges is one row. It knows which
// segments there are, with their summaries in memory, and merges small ones.
//
// Several processes may use one database. Nobody changes a segment: what rewrites some deletes them and adds others in
// one transaction, and only if all are still there. So who reads the list of segments at one moment has every exchange
// once. A segment that is gone when it is read means that the list is old: do not skip it, read the list again.
package segstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/id"
)

const (
	// cached is how many bytes of segments are in memory at most, and as many that were used before them.
	cached = 32 << 20
	// tries is how often a list is read again because others have changed the segments meanwhile.
	tries = 10
	// atOnce is how many segments a statement names.
	atOnce = 500
)

// errGone is returned for a segment that is not there any more.
var errGone = errors.New("a segment is gone")

// Tables are the statements that make the table.
func Tables(postgres bool) []string {
	bytes := "BLOB"
	if postgres {
		bytes = "BYTEA"
	}
	return []string{"CREATE TABLE segments (id TEXT NOT NULL PRIMARY KEY, summary " + bytes + " NOT NULL, body " + bytes +
		" NOT NULL)"}
}

// A Store is safe for concurrent use.
type Store struct {
	db *sqldb.DB

	encoding sync.Mutex
	encoder  *segment.Encoder

	guard sync.Mutex
	known map[string]*segment.Summary
	files generations
}

// New returns a store in a database that has its table.
func New(db *sqldb.DB) *Store {
	return &Store{db: db, encoder: segment.NewEncoder(), known: map[string]*segment.Summary{}}
}

// Add adds a segment of rows, of which there is at least one, in a transaction.
func (s *Store) Add(ctx context.Context, tx *sql.Tx, rows []segment.Row) error {
	body, summary, err := s.encode(rows)
	if err != nil {
		return err
	}
	return s.put(ctx, tx, body, summary)
}

func (s *Store) encode(rows []segment.Row) ([]byte, *segment.Summary, error) {
	s.encoding.Lock()
	defer s.encoding.Unlock()
	return s.encoder.Encode(rows)
}

func (s *Store) put(ctx context.Context, tx *sql.Tx, body []byte, summary *segment.Summary) error {
	q := s.db.Statement("INSERT INTO segments (id, summary, body) VALUES (")
	q.Add(q.Arg(id.Bare()), ", ", q.Arg(summary.Append(nil)), ", ", q.Arg(body), ")")
	_, err := q.Exec(ctx, tx)
	return err
}

// swap replaces segments by one of rows, or by none if there are no rows. It returns false, and does nothing, if one
// of them is gone.
func (s *Store) swap(ctx context.Context, old []string, rows []segment.Row) (done bool, err error) {
	var body []byte
	var summary *segment.Summary
	if len(rows) > 0 {
		if body, summary, err = s.encode(rows); err != nil {
			return false, err
		}
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		q := s.db.Statement("DELETE FROM segments")
		q.Among("id", old)
		n, err := q.Exec(ctx, tx)
		if err == nil && n != int64(len(old)) {
			err = errGone
		}
		if err != nil || len(rows) == 0 {
			return err
		}
		return s.put(ctx, tx, body, summary)
	})
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// A listed segment is one that was there when the list was read.
type listed struct {
	id      string
	summary *segment.Summary
}

// list returns the segments that there are, by the order of their ids. It reads the summaries that are new.
func (s *Store) list(ctx context.Context) ([]listed, error) {
	for range tries {
		all, err := s.tryList(ctx)
		if !errors.Is(err, errGone) {
			return all, err
		}
	}
	return nil, errors.New("reading the list of segments: they change all the time")
}

func (s *Store) tryList(ctx context.Context) ([]listed, error) {
	ids := map[string]bool{}
	err := s.db.Statement("SELECT id FROM segments").Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids[id] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	s.guard.Lock()
	found := map[string]*segment.Summary{}
	var missing []string
	for id := range ids {
		if found[id] = s.known[id]; found[id] == nil {
			missing = append(missing, id)
		}
	}
	s.guard.Unlock()
	slices.Sort(missing)
	for some := range slices.Chunk(missing, atOnce) {
		if err := s.summaries(ctx, some, found); err != nil {
			return nil, err
		}
	}
	all := make([]listed, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if found[id] == nil {
			return nil, errGone
		}
		all = append(all, listed{id, found[id]})
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.known = found
	return all, nil
}

func (s *Store) summaries(ctx context.Context, ids []string, into map[string]*segment.Summary) error {
	q := s.db.Statement("SELECT id, summary FROM segments")
	q.Among("id", ids)
	return q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var id string
		var encoded []byte
		if err := rows.Scan(&id, &encoded); err != nil {
			return err
		}
		summary, err := segment.ParseSummary(encoded)
		if err != nil {
			return fmt.Errorf("segment %s: %w", id, err)
		}
		into[id] = summary
		return nil
	})
}

// open opens a segment. The error is errGone if it is not there any more.
func (s *Store) open(ctx context.Context, id string) (*segment.File, error) {
	s.guard.Lock()
	f := s.files.get(id)
	s.guard.Unlock()
	if f != nil {
		return f, nil
	}
	var body []byte
	q := s.db.Statement("SELECT body FROM segments")
	q.And("id", "=", id)
	err := q.Each(ctx, s.db.Read, func(rows *sql.Rows) error { return rows.Scan(&body) })
	if err == nil && body == nil {
		err = errGone
	}
	if err != nil {
		return nil, err
	}
	if f, err = segment.OpenBytes(id, body); err != nil {
		return nil, err
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.files.put(id, f, len(body))
	return f, nil
}

// view calls f with all segments, again if one is gone before it was read.
func (s *Store) view(ctx context.Context, f func([]segment.Segment) error) error {
	for range tries {
		all, err := s.list(ctx)
		if err != nil {
			return err
		}
		segments := make([]segment.Segment, len(all))
		for i, x := range all {
			segments[i] = segment.Segment{Summary: x.summary, Open: func() (*segment.File, error) { return s.open(ctx, x.id) }}
		}
		if err := f(segments); !errors.Is(err, errGone) {
			return err
		}
	}
	return errors.New("reading segments: they change all the time")
}

// Search returns the rows that a query wants, newest first.
func (s *Store) Search(ctx context.Context, q segment.Query) (rows []segment.Row, err error) {
	err = s.view(ctx, func(all []segment.Segment) error {
		rows, err = segment.Search(all, q)
		return err
	})
	return rows, err
}

// Scan calls begin, and then f with the rows that a query wants, those of a row group at once, newest first. If others
// change the segments meanwhile, it begins again.
func (s *Store) Scan(ctx context.Context, q segment.Query, begin func(), f func(*segment.Part) error) error {
	return s.view(ctx, func(all []segment.Segment) error {
		begin()
		return segment.Scan(all, q, f)
	})
}

// Each calls begin, and then f with each row that a query wants, in no order. The row has the values of the query's
// columns, and is valid until f returns. If others change the segments meanwhile, it begins again.
func (s *Store) Each(ctx context.Context, q segment.Query, begin func(), f func(*segment.Row)) error {
	return s.Scan(ctx, q, begin, func(p *segment.Part) error { return p.Each(q.Columns, f) })
}

// Generations are the files that were used lately, and those before them.
type generations struct {
	young, old map[string]*segment.File
	bytes      int // of the young
}

func (g *generations) get(id string) *segment.File {
	if f := g.young[id]; f != nil {
		return f
	}
	return g.old[id]
}

func (g *generations) put(id string, f *segment.File, size int) {
	if g.young == nil || g.bytes+size > cached {
		g.old, g.young, g.bytes = g.young, map[string]*segment.File{}, 0
	}
	if g.young[id] == nil {
		g.young[id], g.bytes = f, g.bytes+size
	}
}
