package segstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/controlplane/ledger/segstore"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// names returns the names of all blobs.
func names(t *testing.T, b *blob.Bucket) (all []string) {
	t.Helper()
	for it := b.List(nil); ; {
		o, err := it.Next(t.Context())
		if err != nil {
			return all
		}
		all = append(all, o.Key)
	}
}

// bodies returns how many segments have their rows in the database.
func bodies(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	require.NoError(t, db.Read.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM segments WHERE blob = ''").Scan(&n))
	return n
}

func TestADayOfManyRowsGoesToTheBlobStore(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() (*sqldb.DB, *segstore.Store)) {
		db, s := open()
		bucket := memblob.OpenBucket(nil)
		defer func() { require.NoError(t, bucket.Close()) }()
		s.Use(bucket, us)
		const most = 4 * segment.GroupRows
		all := rows(0, most+3000)
		next := noon + int64(12*time.Hour/time.Microsecond)
		all[5000].StartedAt = next // it came with rows of the day before
		for from := 0; from < len(all); from += 3000 {
			require.NoError(t, add(t.Context(), db, s, all[from:min(from+3000, len(all))]))
		}
		before, cost := sums(t, s, segment.Query{})
		made, err := s.ToBlobs(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, made)
		require.Len(t, names(t, bucket), 1)
		require.True(t, strings.HasPrefix(names(t, bucket)[0], "requests/day=2026-03-10/"))
		require.Equal(t, 3, bodies(t, db), "what does not fill a blob, and what is of the next day")
		_, other := open()
		_, err = other.Search(t.Context(), segment.Query{Limit: 1, Where: segment.Equal(segment.ID, "00000007")})
		require.ErrorContains(t, err, names(t, bucket)[0])
		other.Use(bucket, us)
		for _, s := range []*segstore.Store{s, other} {
			n, same := sums(t, s, segment.Query{})
			require.Equal(t, before, n)
			require.Equal(t, cost, same)
			found, err := s.Search(t.Context(), segment.Query{Limit: 1, Where: segment.Equal(segment.ID, "00000007")})
			require.NoError(t, err)
			require.Len(t, found, 1)
		}
		n, err := s.Rewrite(t.Context(), segment.Query{Where: segment.Equal(segment.User, "user-3")},
			func(r *segment.Row) bool { return false })
		require.NoError(t, err)
		require.Equal(t, int64(len(all)/10+1), n)
		require.Len(t, names(t, bucket), 1, "the blob that had them is gone")
		n, err = s.Drop(t.Context(), next)
		require.NoError(t, err)
		require.Equal(t, int64(len(all)-len(all)/10-1-1), n, "all but those that are gone and the one of the next day")
		require.Empty(t, names(t, bucket))
	})
}

func TestADayThatIsOverGoesToTheBlobStore(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() (*sqldb.DB, *segstore.Store)) {
		db, s := open()
		bucket := memblob.OpenBucket(nil)
		defer func() { require.NoError(t, bucket.Close()) }()
		s.Use(bucket, us)
		for i := range 3 {
			require.NoError(t, add(t.Context(), db, s, rows(i*10, 10)))
		}
		made, err := s.ToBlobs(t.Context())
		require.NoError(t, err)
		require.Zero(t, made, "what came just now may not be the last")
		db.Now = later
		made, err = s.ToBlobs(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, made)
		require.Zero(t, bodies(t, db))
		n, _ := sums(t, s, segment.Query{})
		require.Equal(t, 30, n)
	})
}

func TestABlobThatNoSegmentNamesIsDeletedWhenItIsOld(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() (*sqldb.DB, *segstore.Store)) {
		db, s := open()
		bucket := memblob.OpenBucket(nil)
		defer func() { require.NoError(t, bucket.Close()) }()
		s.Use(bucket, us)
		require.NoError(t, add(t.Context(), db, s, rows(0, 10)))
		db.Now = later
		_, err := s.ToBlobs(t.Context())
		require.NoError(t, err)
		kept := names(t, bucket)
		stray := segstore.Prefix + "2026-03-10/us-killed.parquet"
		others := segstore.Prefix + "2026-03-10/others-1.parquet" // of a ledger that was lost, or of another gateway
		for _, name := range []string{stray, others, "files/another"} {
			require.NoError(t, bucket.WriteAll(t.Context(), name, []byte("x"), nil))
		}
		db.Now = time.Now
		require.NoError(t, s.Sweep(t.Context()))
		require.Contains(t, names(t, bucket), stray, "somebody may write it")
		db.Now = later
		require.NoError(t, s.Sweep(t.Context()))
		require.ElementsMatch(t, append(kept, others, "files/another"), names(t, bucket))
		n, _ := sums(t, s, segment.Query{})
		require.Equal(t, 10, n)
	})
}
