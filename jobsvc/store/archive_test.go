package store_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/jobsvc/store"
)

type work struct {
	N     int    `json:"n"`
	Label string `json:"label,omitempty"`
	Ended int64  `json:"ended,omitempty"`
}

var works = store.Kind[work]{
	Name: "works", Prefix: "work_", Ended: func(w *work) int64 { return w.Ended },
	Once: func(w *work) map[string]any { return map[string]any{"label": &w.Label} },
}

// An archiveWorld has an archive in a folder.
type archiveWorld struct {
	*world
	folder string
	all    []*store.Record[work] // newest first
}

func newArchive(t *testing.T) *archiveWorld {
	w := &archiveWorld{world: newWorld(t), folder: t.TempDir()}
	w.store = w.open(w.etcd)
	return w
}

// open returns another store over the same.
func (w *archiveWorld) open(etcd *clientv3.Client) *store.Store {
	bucket, err := blobstore.Open(w.Context(), "file://"+w.folder)
	require.NoError(w, err)
	w.Cleanup(func() { _ = bucket.Close() }) // a folder
	return store.New(etcd).Archived(bucket)
}

// fill makes works, those that are over for which over says so.
func (w *archiveWorld) fill(n int, over func(i int) bool) {
	w.Helper()
	begin := time.Now().Add(-time.Hour)
	for first := 0; first < n; first += 50 {
		require.NoError(w, w.commit(func(t *store.Txn) {
			for i := first; i < min(first+50, n); i++ {
				made := begin.Add(time.Duration(len(w.all)) * time.Second / 2)
				r := &store.Record[work]{Tenant: acme, ID: works.Prefix + id.Derived(made, fmt.Sprint(i)),
					Value: work{N: i, Label: fmt.Sprint("label ", i)}}
				if over(i) {
					r.Value.Ended = int64(1000 + i)
				}
				works.Create(t, r)
				w.all = append(w.all, r)
			}
		}))
	}
	slices.SortFunc(w.all, func(a, b *store.Record[work]) int { return strings.Compare(b.ID, a.ID) })
}

func always(int) bool { return true }

func idle(string) bool { return false }

func (w *archiveWorld) archive(before int64) store.Moved {
	w.Helper()
	done, err := works.Archive(w.Context(), w.store, acme, store.Move{Before: before, Busy: idle})
	require.NoError(w, err)
	return done
}

// listed pages through all works, and returns what it sees.
func (w *archiveWorld) listed(limit int) (seen []work, err error) {
	for p := (store.Page{Limit: limit}); ; {
		page, more, err := works.List(w.Context(), w.store, acme, p, nil)
		if err != nil {
			return seen, err
		}
		for _, r := range page {
			seen, p.After = append(seen, r.Value), r.ID
		}
		if !more {
			return seen, nil
		}
	}
}

// requireAllListed checks that lists and single reads see all works, each once and in order, however they are paged.
func (w *archiveWorld) requireAllListed() {
	w.Helper()
	var want []work
	for _, r := range w.all {
		want = append(want, r.Value)
	}
	for _, limit := range []int{1 + len(want)/7, 100, 1000} {
		seen, err := w.listed(limit)
		require.NoError(w, err)
		require.Equal(w, want, seen, "pages of %d", limit)
	}
	for i := 0; i < len(w.all); i += 1 + len(w.all)/40 {
		got, err := works.Get(w.Context(), w.store, acme, w.all[i].ID)
		require.NoError(w, err)
		require.Equal(w, w.all[i].Value, got.Value)
	}
}

// keysOf returns how many keys etcd has in a folder.
func (w *archiveWorld) keysOf(folder string) (n int) {
	for _, key := range w.keys() {
		if strings.HasPrefix(key, folder) {
			n++
		}
	}
	return n
}

func (w *archiveWorld) blobs() []string {
	names, err := filepath.Glob(filepath.Join(w.folder, "archive", "works", "*"))
	require.NoError(w, err)
	return names
}

func TestWhatIsArchivedReadsAsBefore(t *testing.T) {
	t.Parallel()
	w := newArchive(t)
	w.fill(1000, func(i int) bool { return i%7 != 0 })
	before := w.keysOf("works/")
	for _, until := range []int64{1100, 1101, 1600, 1550, 3000} { // in steps, some of which have nothing to do
		w.archive(until)
		w.requireAllListed()
	}
	require.Equal(t, 1000, before)
	require.Equal(t, 143, w.keysOf("works/"), "what is open stays")
	require.Equal(t, 143, w.keysOf("once/"))
	require.LessOrEqual(t, w.keysOf("archive/"), 8, "hundreds of records have one key")
	for range 50 { // what ends late goes between the others
		i := slices.IndexFunc(w.all, func(r *store.Record[work]) bool { return r.Value.Ended == 0 })
		r := w.all[i]
		r.Value.Ended = 4000
		require.NoError(t, w.commit(func(t *store.Txn) { works.Update(t, r) }))
		w.archive(4000)
	}
	w.requireAllListed()
	_, err := works.Get(t.Context(), w.store, store.Tenant{}, w.all[5].ID)
	require.ErrorIs(t, err, store.ErrNotFound, "another tenant does not see it")
	_, err = works.Get(t.Context(), w.store, acme, works.NewID())
	require.ErrorIs(t, err, store.ErrNotFound)
	tenants, err := works.Tenants(t.Context(), w.store)
	require.NoError(t, err)
	require.Equal(t, []store.Tenant{acme}, tenants)

	r, err := works.Get(t.Context(), w.store, acme, w.all[len(w.all)-1].ID)
	require.NoError(t, err)
	if r.Value.Ended != 0 {
		require.ErrorIs(t, w.commit(func(t *store.Txn) { works.Update(t, r) }), store.ErrConflict,
			"nothing writes it any more")
	}
}

func TestWhatIsStillNeededIsNotArchived(t *testing.T) {
	w := newArchive(t)
	w.fill(10, always)
	busy := w.all[3].ID
	done, err := works.Archive(t.Context(), w.store, acme,
		store.Move{Before: 5000, Busy: func(id string) bool { return id == busy }})
	require.NoError(t, err)
	require.Equal(t, store.Moved{Kept: 1, Moved: 9}, done)
	done, err = works.Archive(t.Context(), w.store, acme,
		store.Move{Before: 5000, Busy: idle, Held: []clientv3.Cmp{clientv3.Compare(clientv3.Version("claim"), ">", 0)}})
	require.ErrorIs(t, err, store.ErrConflict, "who has lost the claim moves nothing")
	require.Zero(t, done.Moved)
	w.requireAllListed()
}

// TestListsAreWholeWhileTheirRecordsMove pages while two replicas move, one of which has lost its claim without
// knowing it.
func TestListsAreWholeWhileTheirRecordsMove(t *testing.T) {
	t.Parallel()
	w := newArchive(t)
	w.fill(1500, func(i int) bool { return i%5 != 0 })
	var moving sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for replica := range 2 {
		st := w.open(w.etcd)
		moving.Go(func() {
			for until := int64(1000); until < 2600 && ctx.Err() == nil; until += 60 {
				_, err := works.Archive(ctx, st, acme, store.Move{Before: until + int64(replica), Busy: idle})
				if err != nil && !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrArchiveDamaged) &&
					ctx.Err() == nil {
					t.Errorf("replica %d: %v", replica, err)
				}
			}
		})
	}
	var want []work
	for _, r := range w.all {
		want = append(want, r.Value)
	}
	rounds := 0
	done := make(chan struct{})
	go func() { moving.Wait(); close(done) }()
	for over := false; !over; rounds++ {
		select {
		case <-done:
			over = true
		default:
		}
		seen, err := w.listed(170)
		require.NoError(t, err)
		require.Equal(t, want, seen)
	}
	stop()
	w.archive(5000)
	w.requireAllListed()
	require.Equal(t, 300, w.keysOf("works/"))
	t.Logf("%d rounds of pages while records moved", rounds)
}

// TestAMoveThatIsCutOffAnywhereLosesNothing has each call of etcd fail in turn, before it is made or after.
func TestAMoveThatIsCutOffAnywhereLosesNothing(t *testing.T) {
	w := newArchive(t)
	w.fill(220, always)
	errCut := errors.New("the process was killed")
	left, after := 0, false
	server := []string{w.etcd.Endpoints()[0]}
	dying, err := clientv3.New(clientv3.Config{Endpoints: server, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
				o ...grpc.CallOption) error {
				if left--; left < 0 && (!after || left < -1) {
					return errCut
				}
				if err := invoke(ctx, method, request, reply, c, o...); err != nil || left >= 0 {
					return err
				}
				return errCut
			})}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = dying.Close() }) // it reports the end of its own context
	cuts := 0
	for n := 0; ; n++ {
		before := w.keysOf("works/")
		left, after = n/2, n%2 == 1
		_, err := works.Archive(t.Context(), w.open(dying), acme, store.Move{Before: int64(1005 + 10*n), Busy: idle})
		w.requireAllListed()
		if err == nil && w.keysOf("works/") == 0 {
			break
		}
		if err != nil {
			require.ErrorContains(t, err, errCut.Error())
			cuts++
		}
		require.LessOrEqual(t, w.keysOf("works/"), before)
		require.Less(t, n, 200)
	}
	require.Greater(t, cuts, 5)
	w.requireAllListed()
	segments := w.keysOf("archive/")
	require.Greater(t, len(w.blobs()), segments, "what was replaced, or never named, is left over")
	require.NoError(t, works.CollectArchive(t.Context(), w.store, time.Now()))
	require.Greater(t, len(w.blobs()), segments, "it may yet be named")
	require.NoError(t, works.CollectArchive(t.Context(), w.store, time.Now().Add(25*time.Hour)))
	require.Len(t, w.blobs(), segments)
	w.store = w.open(w.etcd)
	w.requireAllListed()
}

func TestADamagedSegmentIsNamedAndHoldsUpNothingElse(t *testing.T) {
	for name, damage := range map[string]func(blob string) error{
		"missing":   os.Remove,
		"garbage":   func(blob string) error { return os.WriteFile(blob, []byte("garbage"), 0o600) },
		"truncated": func(blob string) error { return os.Truncate(blob, 100) },
		"empty":     func(blob string) error { return os.Truncate(blob, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newArchive(t)
			w.fill(600, always)
			w.archive(1599)
			var newest *store.Segment
			require.NoError(t, works.Segments(t.Context(), w.store, store.Account{}, func(of *store.Segment) error {
				if newest == nil {
					newest = of
				}
				return nil
			}))
			require.NoError(t, damage(filepath.Join(w.folder, filepath.FromSlash(newest.Blob))))
			w.store = w.open(w.etcd) // which remembers nothing

			_, err := works.Get(t.Context(), w.store, acme, w.all[0].ID)
			require.ErrorIs(t, err, store.ErrArchiveDamaged)
			require.ErrorContains(t, err, newest.Blob)
			_, err = w.listed(10)
			require.ErrorIs(t, err, store.ErrArchiveDamaged)
			page, _, err := works.List(t.Context(), w.store, acme, store.Page{After: w.all[newest.Records-1].ID, Limit: 10},
				nil)
			require.NoError(t, err, "other pages")
			require.Equal(t, w.all[newest.Records].Value, page[0].Value)

			// What comes after is archived beside it.
			r := &store.Record[work]{Tenant: acme, ID: works.NewID(), Value: work{N: -1, Ended: 2000}}
			require.NoError(t, w.commit(func(t *store.Txn) { works.Create(t, r) }))
			require.Equal(t, store.Moved{Moved: 1}, w.archive(5000))
			got, err := works.Get(t.Context(), w.store, acme, r.ID)
			require.NoError(t, err)
			require.Equal(t, -1, got.Value.N)
		})
	}
}

func TestABlobStoreThatIsAwayLosesAndBlocksNothing(t *testing.T) {
	w := newArchive(t)
	w.fill(300, func(i int) bool { return i < 200 })
	w.archive(1099)
	away := w.folder + ".away"
	require.NoError(t, os.Rename(filepath.Join(w.folder, "archive"), away))
	require.NoError(t, os.WriteFile(filepath.Join(w.folder, "archive"), nil, 0o600)) // nothing can be made below a file
	w.store = w.open(w.etcd)
	_, err := works.Archive(t.Context(), w.store, acme, store.Move{Before: 5000, Busy: idle})
	require.ErrorIs(t, err, store.ErrArchiveAway)
	_, err = works.Get(t.Context(), w.store, acme, w.all[299].ID)
	require.ErrorIs(t, err, store.ErrArchiveAway)
	page, more, err := works.List(t.Context(), w.store, acme, store.Page{Limit: 200}, nil)
	require.NoError(t, err, "what is in etcd is read as ever")
	require.Len(t, page, 200)
	require.True(t, more)
	require.NoError(t, os.Remove(filepath.Join(w.folder, "archive")))
	require.NoError(t, os.Rename(away, filepath.Join(w.folder, "archive")))
	w.archive(5000)
	w.requireAllListed()
}

func TestOldSegmentsAreRemovedWhole(t *testing.T) {
	w := newArchive(t)
	w.fill(600, always)
	w.archive(5000)
	var segments []*store.Segment
	require.NoError(t, works.Segments(t.Context(), w.store, store.Account{},
		func(of *store.Segment) error { segments = append(segments, of); return nil }))
	oldest := segments[len(segments)-1]
	none, err := works.Retire(t.Context(), w.store, oldest.Ended-1, nil, nil)
	require.NoError(t, err)
	require.Zero(t, none, "one of its records is too young")
	released := 0
	gone, err := works.Retire(t.Context(), w.store, oldest.Ended, nil,
		func(_ *store.Txn, of *store.Segment) { released += of.Records })
	require.NoError(t, err)
	require.Equal(t, oldest.Records, gone)
	require.Equal(t, gone, released)
	w.all = w.all[:len(w.all)-gone]
	w.requireAllListed()
	require.NoFileExists(t, filepath.Join(w.folder, filepath.FromSlash(oldest.Blob)))
}

// TestEtcdIsBoundedByOpenWork measures what 250 batches with as much metadata as there may be take of etcd.
func TestEtcdIsBoundedByOpenWork(t *testing.T) {
	server := etcdtest.New(t)
	w := newArchive(t)
	w.etcd = server.Client(t)
	w.store = w.open(w.etcd)
	const over = 250
	random, source := make([]byte, 8*576), rand.NewChaCha8([32]byte{})
	for first := 0; first < over; first += 50 {
		require.NoError(t, w.commit(func(t *store.Txn) {
			for i := first; i < first+50; i++ {
				_, _ = source.Read(random) // it never fails
				works.Create(t, &store.Record[work]{Tenant: acme, ID: works.NewID(),
					Value: work{N: i, Label: hex.EncodeToString(random), Ended: 1}})
			}
		}))
	}
	measure := func() (keys int, bytes int64) {
		r, err := w.etcd.Get(t.Context(), store.Root, clientv3.WithPrefix())
		require.NoError(t, err)
		for _, kv := range r.Kvs {
			bytes += int64(len(kv.Key) + len(kv.Value))
		}
		_, err = w.etcd.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
		require.NoError(t, err)
		status, err := w.etcd.Status(t.Context(), w.etcd.Endpoints()[0])
		require.NoError(t, err)
		t.Logf("%d keys, %d bytes; of etcd's database %d bytes are in use", len(r.Kvs), bytes, status.DbSizeInUse)
		return len(r.Kvs), bytes
	}
	_, before := measure()
	began := time.Now()
	done := w.archive(5)
	t.Logf("moved %d in %s", done.Moved, time.Since(began))
	keys, after := measure()
	require.Equal(t, over, done.Moved)
	require.Greater(t, before, int64(9000*over))
	require.Less(t, after, int64(10*over))
	require.Less(t, keys, 5, "one for each MiB")
}
