package segstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// noon is when the rows begin, in microseconds.
const noon = 1_773_144_000_000_000

// onBoth runs a test on SQLite and on PostgreSQL, with what opens the same database as another process does. Those of
// SQLite share a handle: it serves one process, and others may have to wait for it for longer than it does.
func onBoth(t *testing.T, test func(t *testing.T, open func() (*sqldb.DB, *segstore.Store))) {
	run := func(name string, postgres bool, connect func(t *testing.T) func(*sqldb.DB) error) {
		t.Run(name, func(t *testing.T) {
			connect := connect(t)
			bucket := memblob.OpenBucket(nil)
			t.Cleanup(func() { require.NoError(t, bucket.Close()) })
			var db *sqldb.DB
			open := func() (*sqldb.DB, *segstore.Store) {
				if postgres || db == nil {
					db = &sqldb.DB{Now: time.Now}
					require.NoError(t, connect(db))
					opened := db
					t.Cleanup(func() { require.NoError(t, opened.Close()) })
				}
				s := segstore.New(db)
				s.Use(bucket, us)
				return db, s
			}
			first, _ := open()
			for _, statement := range append(segstore.Tables(postgres), segstore.Tallied) {
				_, err := first.Write.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			test(t, open)
		})
	}
	run("sqlite", false, func(t *testing.T) func(*sqldb.DB) error {
		path := filepath.Join(t.TempDir(), "ledger.db")
		return func(db *sqldb.DB) error { return db.OpenSQLite(path) }
	})
	run("postgres", true, func(t *testing.T) func(*sqldb.DB) error {
		dsn := pgtest.Start(t)
		return func(db *sqldb.DB) error { return db.OpenPostgres(dsn) }
	})
}

func rows(from, n int) []segment.Row {
	all := make([]segment.Row, n)
	for i := range all {
		all[i] = segment.Row{ID: fmt.Sprintf("%08d", from+i), StartedAt: noon + int64(from+i)*1000, Cost: int64(from + i),
			User: fmt.Sprint("user-", (from+i)%10), Requests: 1}
	}
	return all
}

func add(ctx context.Context, db *sqldb.DB, s *segstore.Store, rows []segment.Row) error {
	return db.Transact(ctx, func(tx *sql.Tx) error { return s.Add(ctx, tx, rows) })
}

// sums returns how many rows a query wants, and their cost.
func sums(t *testing.T, s *segstore.Store, q segment.Query) (n int, cost int64) {
	t.Helper()
	require.NoError(t, s.Scan(t.Context(), q, func() { n, cost = 0, 0 }, func(p *segment.Part) error {
		costs, err := p.Numbers(segment.Cost)
		if err != nil { // the blob is gone
			return err
		}
		for _, row := range p.Rows {
			n, cost = n+1, cost+costs[row]
		}
		return nil
	}))
	return n, cost
}

// us names the database.
func us(context.Context) (string, error) { return "us", nil }

// later is a clock of the days to come: segments that were made now are old.
func later() time.Time { return time.Now().Add(100 * time.Minute) }

func segments(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	require.NoError(t, db.Read.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM segments").Scan(&n))
	return n
}

func TestSmallSegmentsBecomeLargeOnes(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() (*sqldb.DB, *segstore.Store)) {
		db, s := open()
		for i := range 100 {
			require.NoError(t, add(t.Context(), db, s, rows(i*100, 100)))
		}
		_, other := open()
		before, cost := sums(t, other, segment.Query{})
		require.Equal(t, 10_000, before)
		gone, err := s.Merge(t.Context())
		require.NoError(t, err)
		require.Equal(t, 100-gone, segments(t, db))
		require.Less(t, segments(t, db), 24, "fewer than eight of each size")
		for _, s := range []*segstore.Store{s, other} {
			after, same := sums(t, s, segment.Query{})
			require.Equal(t, before, after)
			require.Equal(t, cost, same)
			found, err := s.Search(t.Context(), segment.Query{Limit: 2, Where: segment.Equal(segment.User, "user-3"),
				AfterAt: noon + 5004*1000})
			require.NoError(t, err)
			require.Len(t, found, 2)
			require.Equal(t, "00005003", found[0].ID)
			require.Equal(t, "00004993", found[1].ID)
		}
		n, err := s.Merge(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestRowsAreRewrittenAndDropped(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() (*sqldb.DB, *segstore.Store)) {
		db, s := open()
		for i := range 10 {
			require.NoError(t, add(t.Context(), db, s, rows(i*100, 100)))
		}
		of := segment.Query{Where: segment.Equal(segment.User, "user-3")}
		n, err := s.Rewrite(t.Context(), of, func(r *segment.Row) bool {
			r.User = ""
			return true
		})
		require.NoError(t, err)
		require.Equal(t, int64(100), n)
		left, _ := sums(t, s, of)
		require.Zero(t, left)
		all, cost := sums(t, s, segment.Query{})
		require.Equal(t, 1000, all)
		require.Equal(t, int64(999*1000/2), cost)

		n, err = s.Rewrite(t.Context(), segment.Query{To: noon + 150*1000}, func(*segment.Row) bool { return false })
		require.NoError(t, err)
		require.Equal(t, int64(150), n)
		n, err = s.Drop(t.Context(), noon+250*1000)
		require.NoError(t, err)
		require.Equal(t, int64(50), n, "those that have nothing newer")
		all, _ = sums(t, s, segment.Query{})
		require.Equal(t, 800, all)
		require.Equal(t, 8, segments(t, db))
	})
}

// Processes that add, merge and rewrite at once, some of which are interrupted anywhere, lose and double nothing: who
// reads meanwhile sees all rows that were added before, each once.
func TestProcessesThatChangeSegmentsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() (*sqldb.DB, *segstore.Store)) {
		const writers, batches, size = 3, 40, 50
		var added atomic.Int64
		ctx, end := context.WithCancel(t.Context())
		var writing, others sync.WaitGroup
		type process struct {
			db *sqldb.DB
			*segstore.Store
		}
		all := make([]process, writers+2)
		for i := range all {
			all[i].db, all[i].Store = open()
			all[i].db.Now = later
		}
		_, reader := open()
		for w := range writers {
			writing.Go(func() {
				for b := range batches {
					if err := add(t.Context(), all[w].db, all[w].Store, rows((w*batches+b)*size, size)); err != nil {
						t.Error(err)
					}
					added.Add(size)
				}
			})
		}
		for _, s := range all[writers:] {
			seed := rand.Uint64()
			others.Go(func() {
				r := rand.New(rand.NewPCG(seed, 0))
				for ctx.Err() == nil {
					soon, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Millisecond)
					_, _ = s.Merge(soon) // it is interrupted, or another has taken some
					_, _ = s.ToBlobs(soon)
					_ = s.Sweep(soon)
					cancel()
					user := fmt.Sprint("user-", r.IntN(10))
					_, _ = s.Rewrite(ctx, segment.Query{Where: segment.Equal(segment.User, user)}, func(r *segment.Row) bool {
						r.User = "erased"
						return true
					})
				}
			})
		}
		for added.Load() < writers*batches*size {
			least := added.Load()
			n, _ := sums(t, reader, segment.Query{})
			require.GreaterOrEqual(t, int64(n), least)
			require.LessOrEqual(t, n, writers*batches*size)
		}
		writing.Wait()
		end()
		others.Wait()
		_, err := reader.Merge(t.Context())
		require.NoError(t, err)
		found, err := reader.Search(t.Context(), segment.Query{Limit: writers*batches*size + 1,
			Columns: []segment.Column{segment.ID}})
		require.NoError(t, err)
		require.Len(t, found, writers*batches*size)
		for i, r := range found {
			require.Equal(t, fmt.Sprintf("%08d", writers*batches*size-1-i), r.ID)
		}
	})
}
