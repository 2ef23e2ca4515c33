package configstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

var keyKind = configv1.KindOf((*configv1.Key)(nil))

func key(name string) *configv1.Key { return &configv1.Key{Name: name, Hash: make([]byte, 32)} }

func putAll(t *testing.T, store *configstore.Store, objects ...configv1.Object) {
	t.Helper()
	for _, o := range objects {
		_, err := store.Put(t.Context(), o, configstore.AnyRevision)
		require.NoError(t, err)
	}
}

func namesOf(entries []configstore.Entry) (names []string) {
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func TestListPage(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	putAll(t, store, provider("p"), &configv1.Organization{Name: "o"})
	var all []string
	for _, name := range []string{"-", "1", "A", "_", "key_01", "key_02", "key_03", "z"} {
		putAll(t, store, key(name))
		all = append(all, name)
	}
	for _, size := range []int{1, 3, 4, 8, 100} {
		var got []string
		for after, more := "", true; more; after = got[len(got)-1] {
			page, next, err := store.ListPage(t.Context(), keyKind, after, size)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), size)
			got, more = append(got, namesOf(page)...), next
		}
		require.Equal(t, all, got)
	}
	page, more, err := store.ListPage(t.Context(), keyKind, "key_015", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"key_02"}, namesOf(page), "after what is not there, too")
	require.True(t, more)
	page, more, err = store.ListPage(t.Context(), keyKind, "z", 1)
	require.NoError(t, err)
	require.Empty(t, page)
	require.False(t, more)

	// Names with slashes follow in the order of List.
	putAll(t, store, model("a/b", "p"), model("a", "p"), model("a-b", "p"))
	whole, err := store.List(t.Context(), models)
	require.NoError(t, err)
	page, _, err = store.ListPage(t.Context(), models, whole[0].Name, 10)
	require.NoError(t, err)
	require.Equal(t, namesOf(whole[1:]), namesOf(page))
}

func TestCount(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	putAll(t, store, provider("p"), key("a"), key("b"))
	for kind, want := range map[string]int64{"keys": 2, "providers": 1, "models": 0} {
		k, _ := configv1.FindKind(kind)
		n, err := store.Count(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, want, n, kind)
	}
}

func TestASnapshotCanLeaveOutKinds(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	putAll(t, store, &configv1.JobService{Name: "default", Address: "unix:///a", Listen: "unix:///b"}, key("a"),
		model("m", "p"), provider("p"),
		&configv1.Listing{Name: "p"}, &configv1.Organization{Name: "o"})
	for _, tc := range []struct {
		except []configv1.Kind
		want   []string
	}{
		{nil, []string{"default", "a", "p", "m", "o", "p"}},
		{[]configv1.Kind{keyKind}, []string{"default", "p", "m", "o", "p"}},
		{[]configv1.Kind{providers, keyKind, models}, []string{"default", "p", "o"}},
	} {
		snapshot, err := store.Snapshot(t.Context(), tc.except...)
		require.NoError(t, err)
		require.Equal(t, tc.want, namesOf(snapshot.Entries))
		require.Equal(t, mustSnapshot(t, store).Revision, snapshot.Revision)
	}
}

func TestOtherOperationsAreOfTheSameTransaction(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	outbox := func(n int) configstore.Also {
		return configstore.Also{With: []clientv3.Op{clientv3.OpPut(fmt.Sprintf("/outbox/%d", n), "x")}}
	}
	revisionOf := func(n int) int64 {
		r, err := etcd.Get(t.Context(), fmt.Sprintf("/outbox/%d", n))
		require.NoError(t, err)
		if len(r.Kvs) == 0 {
			return 0
		}
		return r.Kvs[0].ModRevision
	}
	base := mustSnapshot(t, store).Revision
	revision, err := store.Apply(t.Context(), base, []configstore.Change{change(provider("a"))}, outbox(1), outbox(2))
	require.NoError(t, err)
	require.Equal(t, revision, revisionOf(1))
	require.Equal(t, revision, revisionOf(2))
	_, err = store.Apply(t.Context(), base, []configstore.Change{change(provider("b"))}, outbox(3))
	require.ErrorIs(t, err, configstore.ErrConflict)
	require.Zero(t, revisionOf(3))

	created, err := store.Swap(t.Context(), change(key("k")), 0, outbox(4))
	require.NoError(t, err)
	require.Equal(t, created, revisionOf(4))
	_, err = store.Swap(t.Context(), change(key("k")), 0, outbox(5))
	require.ErrorIs(t, err, configstore.ErrConflict, "it is there already")
	require.Zero(t, revisionOf(5))
	changed, err := store.Swap(t.Context(), change(key("k")), created, outbox(5))
	require.NoError(t, err)
	gone, err := store.Swap(t.Context(), configstore.Change{Kind: keyKind, Name: "k"}, changed, outbox(6))
	require.NoError(t, err)
	require.Equal(t, gone, revisionOf(6))
	_, err = store.Swap(t.Context(), change(key("k")), changed)
	require.ErrorIs(t, err, configstore.ErrConflict, "one that was deleted does not come back")
	_, err = store.Swap(t.Context(), change(provider("NO")), 0)
	require.ErrorAs(t, err, new(configv1.Errors))

	head := outbox(7)
	head.If = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("/outbox/7"), "=", 0)}
	base = mustSnapshot(t, store).Revision
	base, err = store.Apply(t.Context(), base, []configstore.Change{change(provider("c"))}, head)
	require.NoError(t, err)
	_, err = store.Apply(t.Context(), base, []configstore.Change{change(provider("d"))}, head)
	require.ErrorIs(t, err, configstore.ErrConflict, "what it demands is not so")
	_, err = store.Swap(t.Context(), change(key("k")), 0, head)
	require.ErrorIs(t, err, configstore.ErrConflict)
}

// Making keys does not keep anybody from changing the rest, and the reverse: there may be very many.
func TestChangesOfKeysAndOfTheRestAreNoConflict(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	putAll(t, store, key("old"), key("other"), provider("a"))
	base := mustSnapshot(t, store).Revision
	putAll(t, store, key("new"))
	_, err := store.Apply(t.Context(), base, []configstore.Change{change(provider("b"))})
	require.NoError(t, err)

	// A change of keys sees each that was changed or deleted meanwhile, and a change of the rest.
	base = mustSnapshot(t, store).Revision
	_, err = store.Delete(t.Context(), keyKind, "old", configstore.AnyRevision)
	require.NoError(t, err)
	_, err = store.Apply(t.Context(), base, []configstore.Change{change(key("old"))})
	require.ErrorIs(t, err, configstore.ErrConflict, "a key that is revoked does not come back")
	base = mustSnapshot(t, store).Revision
	putAll(t, store, provider("c"))
	_, err = store.Apply(t.Context(), base, []configstore.Change{change(key("other"))})
	require.ErrorIs(t, err, configstore.ErrConflict)
	base = mustSnapshot(t, store).Revision
	revision, err := store.Apply(t.Context(), base, []configstore.Change{change(key("other")), change(key("more")),
		change(provider("d"))})
	require.NoError(t, err)
	require.Equal(t, revision, mustSnapshot(t, store).Find(keyKind, "more").Revision)
}
