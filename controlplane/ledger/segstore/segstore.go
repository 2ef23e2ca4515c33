// Package segstore keeps segments of the ledger: in its database while they are small, and then in the blob store, by
// day. It knows which segments there are, with their summaries in memory, and merges small ones.
//
// Several processes may use one database. Nobody changes a segment: what rewrites some deletes them and adds others in
// one transaction, and only if all are still there. So who reads the list of segments at one moment has every exchange
// once. A segment that is gone when it is read means that the list is old: do not skip it, read the list again. A blob
// is written before the database names it, and deleted after.
package segstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/id"
)

const (
	// cached is how many bytes of segments are in memory at most, and as many that were used before them.
	cached = 32 << 20
	// footerBytes is what the footer of an open segment takes, about.
	footerBytes = 64 << 10
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
		" NOT NULL, blob TEXT NOT NULL)"} // the name of a blob, which has the rows instead of body; or empty
}

// Tallied is the statement that adds the column tallied: whether the rows are in the tallies.
const Tallied = "ALTER TABLE segments ADD COLUMN tallied SMALLINT NOT NULL DEFAULT 0"

// A Store is safe for concurrent use.
type Store struct {
	db     *sqldb.DB
	bucket *blob.Bucket // nil: all stay in the database
	owner  func(context.Context) (string, error)

	encoding sync.Mutex
	encoder  *segment.Encoder

	guard sync.Mutex
	known map[string]listed
	files generations
}

// New returns a store in a database that has its table.
func New(db *sqldb.DB) *Store {
	return &Store{db: db, encoder: segment.NewEncoder(), known: map[string]listed{}}
}

// Add adds a segment of rows, of which there is at least one, in a transaction.
func (s *Store) Add(ctx context.Context, tx *sql.Tx, rows []segment.Row) error {
	body, summary, err := s.encode(rows)
	if err != nil {
		return err
	}
	return s.put(ctx, tx, listed{id: id.Bare(), summary: summary}, body)
}

func (s *Store) encode(rows []segment.Row) ([]byte, *segment.Summary, error) {
	s.encoding.Lock()
	defer s.encoding.Unlock()
	return s.encoder.Encode(rows)
}

func (s *Store) put(ctx context.Context, tx *sql.Tx, x listed, body []byte) error {
	if x.blob != "" {
		body = []byte{}
	}
	q := s.db.Statement("INSERT INTO segments (id, summary, body, blob, tallied) VALUES (")
	q.Add(q.Arg(x.id), ", ", q.Arg(x.summary.Append(nil)), ", ", q.Arg(body), ", ", q.Arg(x.blob), ", ",
		q.Arg(sqldb.Flag(x.tallied)), ")")
	_, err := q.Exec(ctx, tx)
	return err
}

// A rewritten segment has rows of others. If it has none, there is no segment.
type rewritten struct {
	rows []segment.Row
	blob bool // it goes to the blob store
}

// swap replaces segments by others, which are tallied if the first is: either all of them are, or none. It returns
// false, and does nothing, if one of them is gone.
func (s *Store) swap(ctx context.Context, old []listed, by ...rewritten) (done bool, err error) {
	var fresh []listed
	var bodies [][]byte
	for _, n := range by {
		if len(n.rows) == 0 {
			continue
		}
		body, summary, err := s.encode(n.rows)
		x := listed{id: id.Bare(), summary: summary, tallied: old[0].tallied}
		if err == nil && n.blob {
			x.blob, err = s.writeBlob(ctx, x.id, body, summary)
		}
		if err != nil {
			return false, err
		}
		fresh, bodies = append(fresh, x), append(bodies, body)
	}
	var ids []string
	for _, x := range old {
		ids = append(ids, x.id)
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		q := s.db.Statement("DELETE FROM segments")
		q.Among("id", ids)
		q.And("tallied", "=", sqldb.Flag(old[0].tallied))
		n, err := q.Exec(ctx, tx)
		if err == nil && n != int64(len(ids)) {
			err = errGone
		}
		for i, x := range fresh {
			if err == nil {
				err = s.put(ctx, tx, x, bodies[i])
			}
		}
		return err
	})
	switch {
	case errors.Is(err, errGone):
		s.deleteBlobs(ctx, fresh)
		return false, nil
	case err != nil: // if the answer of a commit was lost, the database may name the blobs
		return false, err
	}
	s.deleteBlobs(ctx, old)
	return true, nil
}

// A listed segment is one that was there when the list was read.
type listed struct {
	id      string
	blob    string // its name in the blob store; empty: the rows are in the database
	summary *segment.Summary
	tallied bool
}

// made returns when a segment was made.
func (x *listed) made() time.Time { return id.Made(x.id) }

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
	var ids, missing []string
	tallied := map[string]bool{}
	q := s.db.Statement("SELECT id, tallied FROM segments ORDER BY id")
	err := q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var id string
		var is int64
		err := rows.Scan(&id, &is)
		ids, tallied[id] = append(ids, id), is != 0
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]listed, len(ids))
	s.guard.Lock()
	for _, id := range ids {
		if x, ok := s.known[id]; ok {
			found[id] = x
		} else {
			missing = append(missing, id)
		}
	}
	s.guard.Unlock()
	for some := range slices.Chunk(missing, atOnce) {
		if err := s.summaries(ctx, some, found); err != nil {
			return nil, err
		}
	}
	if len(found) < len(ids) {
		return nil, errGone
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.known = found
	all := slices.Collect(maps.Values(found))
	for i := range all {
		all[i].tallied = tallied[all[i].id]
	}
	slices.SortFunc(all, func(a, b listed) int { return strings.Compare(a.id, b.id) })
	return all, nil
}

func (s *Store) summaries(ctx context.Context, ids []string, into map[string]listed) error {
	q := s.db.Statement("SELECT id, blob, summary FROM segments")
	q.Among("id", ids)
	return q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var x listed
		var encoded []byte
		if err := rows.Scan(&x.id, &x.blob, &encoded); err != nil {
			return err
		}
		var err error
		if x.summary, err = segment.ParseSummary(encoded); err != nil {
			return fmt.Errorf("segment %s: %w", x.id, err)
		}
		into[x.id] = x
		return nil
	})
}

// open opens a segment. The error is errGone if it is not there any more.
func (s *Store) open(ctx context.Context, x listed) (f *segment.File, err error) {
	s.guard.Lock()
	f = s.files.get(x.id)
	s.guard.Unlock()
	if f != nil {
		return f, nil
	}
	bytes := 0
	if x.blob != "" {
		f, err = s.openBlob(x.blob, x.summary.Bytes)
	} else {
		f, bytes, err = s.openRow(ctx, x.id)
	}
	if err != nil {
		return nil, err
	}
	s.guard.Lock()
	defer s.guard.Unlock()
	s.files.put(x.id, f, bytes+footerBytes)
	return f, nil
}

// openRow opens a segment whose rows are in the database, and returns its size.
func (s *Store) openRow(ctx context.Context, id string) (*segment.File, int, error) {
	var body []byte
	q := s.db.Statement("SELECT body FROM segments")
	q.And("id", "=", id)
	err := q.Each(ctx, s.db.Read, func(rows *sql.Rows) error { return rows.Scan(&body) })
	if err == nil && body == nil {
		err = errGone
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := segment.OpenBytes(id, body)
	return f, len(body), err
}

// view calls f with all segments, again if one is gone before it was read.
func (s *Store) view(ctx context.Context, f func([]segment.Segment) error) error {
	return s.viewOf(ctx, func(listed) bool { return true }, f)
}

func (s *Store) segmentsOf(ctx context.Context, all []listed) []segment.Segment {
	segments := make([]segment.Segment, len(all))
	for i, x := range all {
		segments[i] = segment.Segment{Summary: x.summary, Open: func() (*segment.File, error) { return s.open(ctx, x) }}
	}
	return segments
}

// viewOf calls f with some segments, again if one is gone before it was read.
func (s *Store) viewOf(ctx context.Context, some func(listed) bool, f func([]segment.Segment) error) (err error) {
	for range tries {
		var all []listed
		if all, err = s.list(ctx); err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(x listed) bool { return !some(x) })
		if err = f(s.segmentsOf(ctx, all)); !errors.Is(err, errGone) {
			return err
		}
	}
	return fmt.Errorf("reading segments, which change all the time or are missing: %w", err)
}

// Search returns the rows that a query wants, newest first.
func (s *Store) Search(ctx context.Context, q segment.Query) (rows []segment.Row, err error) {
	err = s.view(ctx, func(all []segment.Segment) error {
		rows, err = segment.Search(all, q)
		return err
	})
	return rows, err
}

// SearchSome does what Search does, without the tallied segments of which may says that they have no such row, by the
// times in which the first and the last of their rows began.
func (s *Store) SearchSome(ctx context.Context, q segment.Query, may func(from, to int64) bool) (rows []segment.Row,
	err error) {
	some := func(x listed) bool { return !x.tallied || may(x.summary.From, x.summary.To) }
	err = s.viewOf(ctx, some, func(all []segment.Segment) error {
		rows, err = segment.Search(all, q)
		return err
	})
	return rows, err
}

// SearchEach does what Search does, with several queries of the segments that there are at one moment.
func (s *Store) SearchEach(ctx context.Context, queries []segment.Query) (found [][]segment.Row, err error) {
	err = s.view(ctx, func(all []segment.Segment) error {
		found = nil
		for _, q := range queries {
			rows, err := segment.Search(all, q)
			if err != nil {
				return err
			}
			found = append(found, rows)
		}
		return nil
	})
	return found, err
}

// Scan calls begin, and then f with the rows that a query wants, those of a row group at once, newest first. If others
// change the segments meanwhile, it begins again.
func (s *Store) Scan(ctx context.Context, q segment.Query, begin func(), f func(*segment.Part) error) error {
	return s.view(ctx, func(all []segment.Segment) error {
		begin()
		return segment.Scan(all, q, f)
	})
}

// EachUntallied does what Each does, with the rows that are not in the tallies.
func (s *Store) EachUntallied(ctx context.Context, q segment.Query, begin func(), f func(*segment.Row)) error {
	untallied := func(x listed) bool { return !x.tallied }
	return s.viewOf(ctx, untallied, func(all []segment.Segment) error {
		begin()
		return segment.Scan(all, q, func(p *segment.Part) error { return p.Each(q.Columns, f) })
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
