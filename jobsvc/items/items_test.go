package items_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/blobstore/blobtest"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

const (
	mb  = 1 << 20
	day = 24 * 60 * 60
)

// A world has the lists of one object, and counts what is read and written of them.
type world struct {
	*testing.T
	*items.Store
	count *blobtest.Bucket
	list  *items.List
	time  int64 // of expiry
	names int
}

func newWorld(t *testing.T) *world {
	count := blobtest.New(t)
	sealer, err := secret.NewSealer(make([]byte, 32))
	require.NoError(t, err)
	return &world{T: t, count: count, list: &items.List{}, time: 100 * day,
		Store: &items.Store{Bucket: count.Blobs, Sealer: sealer, Owner: "conv_1"}}
}

// save writes a list in place of the one before, and removes what it replaces.
func (w *world) save(l *items.List) {
	w.Helper()
	c, err := w.Save(w.Context(), w.list, l, w.time, 10*day)
	require.NoError(w, err)
	for _, name := range c.Replaced {
		require.NoError(w, w.Bucket.Delete(w.Context(), name))
	}
	w.list, err = w.Open(w.Context(), c.Name)
	require.NoError(w, err)
}

// add appends items of a size with new ids, and returns these.
func (w *world) add(n, size int) (ids []string) {
	w.Helper()
	var more []json.RawMessage
	for range n {
		w.names++
		ids = append(ids, fmt.Sprintf("msg_%06d", w.names))
		more = append(more, json.RawMessage(`{"id":"`+ids[len(ids)-1]+`","text":"`+strings.Repeat("x", size)+`"}`))
	}
	w.save(w.list.Plus(more))
	return ids
}

func (w *world) ids(from, most int, down bool) (ids []string) {
	w.Helper()
	require.NoError(w, w.Walk(w.Context(), w.list, from, most, down, func(item json.RawMessage) error {
		ids = append(ids, gjson.GetBytes(item, "id").Str)
		return nil
	}))
	return ids
}

func (w *world) all() (ids []string) {
	w.Helper()
	all, err := w.All(w.Context(), w.list)
	require.NoError(w, err)
	require.Equal(w, items.Size(all), w.list.Bytes())
	for _, item := range all {
		ids = append(ids, gjson.GetBytes(item, "id").Str)
	}
	return ids
}

func (w *world) blobs() (names []string) {
	for all := w.Bucket.List(nil); ; {
		o, err := all.Next(w.Context())
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(w, err)
		names = append(names, o.Key)
	}
}

// TestAListIsWhatWasAdded: whatever the sizes of items are, and whichever are removed.
func TestAListIsWhatWasAdded(t *testing.T) {
	w := newWorld(t)
	var want []string
	for _, of := range [][2]int{{3, 10}, {1, 300 << 10}, {20, 5 << 10}, {1, 10}, {400, 1 << 10}, {2, 100 << 10}, {0, 0}} {
		want = append(want, w.add(of[0], of[1])...)
		require.Equal(t, want, w.all())
	}
	check := func() {
		t.Helper()
		require.Equal(t, len(want), w.list.Len())
		require.Equal(t, want, w.all())
		backwards := slices.Clone(want)
		slices.Reverse(backwards)
		require.Equal(t, backwards, w.ids(len(want)-1, len(want)+10, true))
		for from := 0; from < len(want); from += 1 + from%7 {
			n := min(7, len(want)-from)
			require.Equal(t, want[from:from+n], w.ids(from, 7, false))
			require.Equal(t, backwards[len(want)-1-from:][:min(7, from+1)], w.ids(from, 7, true))
		}
		for i := 0; i < len(want); i += 9 {
			at, item, err := w.Find(t.Context(), w.list, want[i])
			require.NoError(t, err)
			require.Equal(t, i, at)
			require.Equal(t, want[i], gjson.GetBytes(item, "id").Str)
		}
	}
	check()
	for _, at := range []int{0, 3, len(want) - 3, len(want) / 2, 1, 1, 1} {
		next, err := w.Without(t.Context(), w.list, at)
		require.NoError(t, err)
		w.save(next)
		want = slices.Delete(want, at, at+1)
	}
	check()
	at, _, err := w.Find(t.Context(), w.list, "msg_none")
	require.NoError(t, err)
	require.Equal(t, -1, at)
	named, err := w.Blobs(t.Context(), w.last())
	require.NoError(t, err)
	require.ElementsMatch(t, w.blobs(), named, "nothing else is left")
	for len(want) > 0 {
		next, err := w.Without(t.Context(), w.list, 0)
		require.NoError(t, err)
		w.save(next)
		want = want[1:]
	}
	require.Zero(t, w.list.Len())
	require.Len(t, w.blobs(), 1)
}

// last is the name of the newest index.
func (w *world) last() string {
	for _, name := range w.blobs() {
		if _, err := w.Open(w.Context(), name); err == nil {
			return name
		}
	}
	w.Fatal("there is no index")
	return ""
}

// TestTheCostDoesNotDependOnTheLength: of a page, an item, an append and a removal, in bytes of the store.
func TestTheCostDoesNotDependOnTheLength(t *testing.T) {
	for _, size := range []int{1 << 10, 100_000} {
		w := newWorld(t)
		var ids []string
		for w.list.Bytes() < 32*mb {
			ids = append(ids, w.add(400_000/size, size)...)
		}
		cost := func(what string, read, written int64, do func()) {
			t.Helper()
			w.count.Reset()
			do()
			t.Logf("items of %d bytes: %s reads %d and writes %d bytes", size, what, w.count.Read(), w.count.Written())
			require.LessOrEqual(t, w.count.Read(), read, what)
			require.LessOrEqual(t, w.count.Written(), written, what)
		}
		const index = 200 << 10 // also of a list of 32,000 items
		name := w.last()
		open := func() *items.List {
			l, err := w.Open(t.Context(), name)
			require.NoError(t, err)
			return l
		}
		cost("an item", index+256<<10, 0, func() {
			at, _, err := w.Find(t.Context(), open(), ids[len(ids)/2])
			require.NoError(t, err)
			require.Equal(t, len(ids)/2, at)
		})
		cost("a page of one", index+128<<10+int64(size), 0, func() {
			w.list = open()
			require.Len(t, w.ids(0, 1, false), 1)
		})
		cost("a page of twenty", index+256<<10+20*int64(size), 0, func() {
			w.list = open()
			require.Len(t, w.ids(len(ids)/2, 20, true), 20)
		})
		cost("an append of two bytes", 2*index, index, func() {
			w.list = open()
			w.add(1, 2)
		})
		cost("a removal", 2*index+256<<10, index+256<<10, func() {
			next, err := w.Without(t.Context(), w.list, len(ids)/2)
			require.NoError(t, err)
			w.save(next)
		})
		cost("an append of a page", 2*index, index+512<<10, func() { w.add(400_000/size, size) })
	}
}

// TestSegmentsLiveAsLongAsTheirList: the name of each begins with a day that is not before the expiry.
func TestSegmentsLiveAsLongAsTheirList(t *testing.T) {
	w := newWorld(t)
	want := w.add(10, 100<<10)
	for range 40 {
		w.time += day
		w.count.Reset()
		want = append(want, w.add(1, 2)...)
		for _, name := range w.blobs() {
			require.GreaterOrEqual(t, name, items.Folder("", w.time)[:len(items.Root)+len(time.DateOnly)])
		}
	}
	require.Equal(t, want, w.all())
	w.count.Reset()
	w.add(1, 2)
	require.Less(t, w.count.Written(), int64(64<<10), "they are not written again for each change")
}

func TestAWholeListIsOneBlob(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{0, 1, 3, 300} {
		var all []json.RawMessage
		for i := range n {
			all = append(all, json.RawMessage(fmt.Sprintf(`{"id":"%d","text":"%s"}`, i, strings.Repeat("x", 10_000))))
		}
		name := items.Folder("conv_1", w.time) + "input"
		require.NoError(t, w.WriteWhole(t.Context(), name, all))
		require.Len(t, w.blobs(), 1)
		l, err := w.Open(t.Context(), name)
		require.NoError(t, err)
		w.list = l
		require.Equal(t, n, l.Len())
		read, err := w.All(t.Context(), l)
		require.NoError(t, err)
		require.Equal(t, items.Size(all), items.Size(read))
		if n == 300 {
			w.count.Reset()
			require.Equal(t, []string{"150", "151"}, w.ids(150, 2, false))
			require.Less(t, w.count.Read(), int64(300<<10))
		}
	}
}

// TestWhatIsDamagedIsMissing: whatever byte was changed, and wherever it was cut off.
func TestWhatIsDamagedIsMissing(t *testing.T) {
	w := newWorld(t)
	w.add(3, 20<<10)
	other := *w.Store
	other.Owner = "conv_2"
	for _, name := range w.blobs() {
		good, err := w.Bucket.ReadAll(t.Context(), name)
		require.NoError(t, err)
		index := w.last()
		_, err = other.Open(t.Context(), index)
		require.ErrorIs(t, err, items.ErrMissing, "it is sealed for another")
		for i := 0; i < len(good); i += 1 + len(good)/50 {
			for _, bad := range [][]byte{good[:i], append(append(slices.Clone(good[:i]), good[i]^1), good[i+1:]...)} {
				require.NoError(t, w.Bucket.WriteAll(t.Context(), name, bad, nil))
				l, err := w.Open(t.Context(), index)
				if err == nil {
					_, err = w.All(t.Context(), l)
				}
				require.ErrorIs(t, err, items.ErrMissing)
			}
		}
		require.NoError(t, w.Bucket.WriteAll(t.Context(), name, good, nil))
	}
	require.Len(t, w.all(), 3)
}

// TestWhatIsReadIsGivenBack: a walk holds one piece at a time.
func TestWhatIsReadIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.add(100, 100_000)
	b, err := memory.New(64*mb, prometheus.NewRegistry())
	require.NoError(t, err)
	h := b.Request("a")
	ctx := memory.With(t.Context(), h)
	var most int64
	require.NoError(t, w.Walk(ctx, w.list, 0, 100, false, func(item json.RawMessage) error {
		most = max(most, b.Held())
		require.True(t, bytes.HasPrefix(item, []byte(`{"id"`)))
		return nil
	}))
	require.Less(t, most, int64(512<<10))
	require.Zero(t, b.Held())
	_, err = w.All(ctx, w.list)
	require.NoError(t, err)
	require.GreaterOrEqual(t, b.Held(), w.list.Bytes())
	h.Release()
	require.Zero(t, b.Held())
}
