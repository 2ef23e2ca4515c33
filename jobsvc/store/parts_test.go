package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A note is a part of a work.
type note struct {
	Text string `json:"text"`
}

var (
	notes = store.Kind[note]{Name: "notes", Prefix: "note_"}
	noted = store.Kind[work]{Name: works.Name, Prefix: works.Prefix, Ended: works.Ended, Once: works.Once,
		Parts: []store.Parts{notes}}
)

// note adds notes to a work.
func (w *archiveWorld) note(of *store.Record[work], n int) {
	w.Helper()
	for first := 0; first < n; first += 100 {
		require.NoError(w, w.commit(func(t *store.Txn) {
			for i := first; i < min(n, first+100); i++ {
				made := time.Unix(1_800_000_000, int64(i)*int64(time.Millisecond))
				notes.Under(of.ID).Put(t, &store.Record[note]{Tenant: of.Tenant, ID: notes.Prefix +
					id.Derived(made, fmt.Sprint(i)), Value: note{fmt.Sprint(of.Value.N, " ", i)}})
			}
		}))
	}
}

// notesOf pages through the notes of a work, as it was read at some time.
func (w *archiveWorld) notesOf(of *store.Record[work], limit int) (seen []string, err error) {
	for p := (store.Page{Limit: limit}); ; {
		page, more, err := store.ListParts(w.Context(), w.store, noted, of, notes, p)
		if err != nil {
			return seen, err
		}
		for _, r := range page {
			seen, p.After = append(seen, r.Value.Text), r.ID
		}
		if !more {
			return seen, nil
		}
	}
}

// requireAllNotes checks that all works have their notes, newest first, both as they are now and as they were when
// they were made.
func (w *archiveWorld) requireAllNotes(counts map[int]int) {
	w.Helper()
	for _, made := range w.all {
		var want []string
		for i := range counts[made.Value.N] {
			want = append([]string{fmt.Sprint(made.Value.N, " ", i)}, want...)
		}
		now, err := noted.Get(w.Context(), w.store, acme, made.ID)
		require.NoError(w, err)
		require.Equal(w, made.Value, now.Value)
		for _, of := range []*store.Record[work]{made, now} {
			seen, err := w.notesOf(of, 1+len(want)/3)
			require.NoError(w, err)
			require.Equal(w, want, seen)
		}
	}
}

func (w *archiveWorld) noteBlobs() (n int) {
	w.Helper()
	require.NoError(w, filepath.WalkDir(filepath.Join(w.folder, "archive", "notes"),
		func(path string, of os.DirEntry, err error) error {
			if err == nil && !of.IsDir() && !strings.HasSuffix(path, ".attrs") {
				n++
			}
			return err
		}))
	return n
}

func TestPartsGoToTheArchiveWithTheirObject(t *testing.T) {
	w := newArchive(t)
	w.fill(8, func(i int) bool { return i != 5 })
	counts := map[int]int{0: 1, 1: 3, 2: 0, 3: 1300, 4: 256, 5: 20, 6: 600, 7: 2}
	for _, of := range w.all {
		w.note(of, counts[of.Value.N])
	}
	w.requireAllNotes(counts)
	for _, until := range []int64{1001, 1003, 1007} {
		_, err := noted.Archive(t.Context(), w.store, acme, store.Move{Before: until, Busy: idle})
		require.NoError(t, err)
		w.requireAllNotes(counts)
	}
	require.Equal(t, 20, w.keysOf("notes/"), "those of what is open stay")
	require.Equal(t, 1, w.keysOf("archive/"), "parts have no key of their own")

	_, _, err := store.ListParts(t.Context(), w.store, noted,
		&store.Record[work]{Tenant: store.Tenant{Organization: "other"}, ID: w.all[0].ID}, notes, store.Page{Limit: 1})
	require.ErrorIs(t, err, store.ErrNotFound, "another tenant does not see them")
}

func TestBlobsOfPartsStayAsLongAsTheirObject(t *testing.T) {
	w := newArchive(t)
	w.fill(4, always)
	counts := map[int]int{0: 3, 1: 3, 2: 3, 3: 3}
	for _, of := range w.all {
		w.note(of, 3)
	}
	// A move that is refused leaves blobs that nothing names.
	_, err := noted.Archive(t.Context(), w.store, acme,
		store.Move{Before: 5000, Busy: idle, Held: []clientv3.Cmp{clientv3.Compare(clientv3.Version("claim"), ">", 0)}})
	require.ErrorIs(t, err, store.ErrConflict)
	w.requireAllNotes(counts)
	require.Equal(t, 4, w.noteBlobs())
	require.NoError(t, noted.CollectArchive(t.Context(), w.store, time.Now()))
	require.Equal(t, 4, w.noteBlobs(), "they may yet be named")
	require.NoError(t, noted.CollectArchive(t.Context(), w.store, time.Now().Add(25*time.Hour)))
	require.Zero(t, w.noteBlobs())

	_, err = noted.Archive(t.Context(), w.store, acme, store.Move{Before: 5000, Busy: idle})
	require.NoError(t, err)
	require.NoError(t, noted.CollectArchive(t.Context(), w.store, time.Now().Add(25*time.Hour)))
	require.Equal(t, 4, w.noteBlobs())
	w.requireAllNotes(counts)
	now, err := noted.Get(t.Context(), w.store, acme, w.all[0].ID)
	require.NoError(t, err)

	gone, err := noted.Retire(t.Context(), w.store, 5000, nil, nil)
	require.NoError(t, err)
	require.Equal(t, 4, gone)
	require.NoError(t, noted.CollectArchive(t.Context(), w.store, time.Now().Add(25*time.Hour)))
	require.Zero(t, w.noteBlobs())
	w.store = w.open(w.etcd) // which remembers nothing
	_, err = w.notesOf(now, 10)
	require.ErrorIs(t, err, store.ErrNotFound, "who has read the object before hears that it is gone")
}

func TestADamagedSegmentOfPartsIsNamed(t *testing.T) {
	w := newArchive(t)
	w.fill(2, always)
	for _, of := range w.all {
		w.note(of, 3)
	}
	_, err := noted.Archive(t.Context(), w.store, acme, store.Move{Before: 5000, Busy: idle})
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join(w.folder, "archive", "notes", "*", "*", "*"))
	require.NoError(t, err)
	require.Len(t, names, 2)
	require.NoError(t, os.Truncate(names[0], 20))
	w.store = w.open(w.etcd)
	damaged := 0
	for _, of := range w.all {
		seen, err := w.notesOf(of, 10)
		if err != nil {
			require.ErrorIs(t, err, store.ErrArchiveDamaged)
			require.ErrorContains(t, err, filepath.Base(names[0]))
			damaged++
			continue
		}
		require.Len(t, seen, 3)
	}
	require.Equal(t, 1, damaged, "the other's are read")
}
