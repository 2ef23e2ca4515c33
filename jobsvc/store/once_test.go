package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/jobsvc/store"
)

// A labelled thing has labels that are written once, and a plan that is once it is made.
type labelled struct {
	N      int               `json:"n"`
	Labels map[string]string `json:"labels,omitzero"`
	Plan   string            `json:"plan,omitempty"`
	Made   bool              `json:"made,omitempty"`
}

var (
	labelledThings = store.Kind[labelled]{Name: "labelled", Prefix: "thing_", Once: func(l *labelled) map[string]any {
		members := map[string]any{"labels": &l.Labels}
		if l.Made {
			members["plan"] = &l.Plan
		}
		return members
	}}
	// As the version before has it.
	wholeThings = store.Kind[labelled]{Name: "labelled", Prefix: "thing_"}
)

func (w *world) value(key string) string {
	w.Helper()
	r, err := w.etcd.Get(w.Context(), store.Root+key, clientv3.WithPrefix())
	require.NoError(w, err)
	require.Len(w, r.Kvs, 1)
	return string(r.Kvs[0].Value)
}

func (w *world) labelled(id string) *store.Record[labelled] {
	w.Helper()
	got, err := labelledThings.Get(w.Context(), w.store, acme, id)
	require.NoError(w, err)
	page, _, err := labelledThings.List(w.Context(), w.store, acme, store.Page{Limit: 9}, nil)
	require.NoError(w, err)
	require.Contains(w, page, got, "a list says the same")
	return got
}

func TestWhatIsWrittenOnceIsNotWrittenAgain(t *testing.T) {
	w := newWorld(t)
	r := &store.Record[labelled]{Tenant: acme, ID: labelledThings.NewID(),
		Value: labelled{Labels: map[string]string{"a": "marked"}, Plan: "later"}}
	update := func() { require.NoError(t, w.commit(func(t *store.Txn) { labelledThings.Update(t, r) })) }
	require.NoError(t, w.commit(func(t *store.Txn) { labelledThings.Create(t, r) }))
	first := r.Revision
	for r.Value.N = range 3 {
		update()
	}
	require.NotContains(t, w.value("labelled/"), "marked")
	require.Contains(t, w.value("labelled/"), "later", "the plan is not made yet")
	r = w.labelled(r.ID)
	require.Equal(t, labelled{2, map[string]string{"a": "marked"}, "later", false}, r.Value)
	r.Value.Made = true
	update()
	update()
	require.NotContains(t, w.value("labelled/"), "later")
	require.Equal(t, labelled{2, map[string]string{"a": "marked"}, "later", true}, w.labelled(r.ID).Value)

	writes := 0
	ch := w.etcd.Watch(t.Context(), store.Root+"once/", clientv3.WithPrefix(), clientv3.WithRev(first))
	require.NoError(t, w.commit(func(t *store.Txn) { labelledThings.Delete(t, r) }))
	for gone := false; !gone; {
		for _, e := range (<-ch).Events {
			gone = e.Type == clientv3.EventTypeDelete
			if !gone {
				writes++
			}
		}
	}
	require.Equal(t, 2, writes, "at the creation, and when the plan was made")
	require.Empty(t, w.keys())
}

func TestListsOfRecordsOfWhichSomeHaveNothingThatIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	var made []*store.Record[labelled]
	for i := range 20 {
		r := &store.Record[labelled]{Tenant: acme, ID: labelledThings.NewID(), Value: labelled{N: i}}
		switch i % 4 {
		case 0:
			r.Value.Labels = map[string]string{"n": strings.Repeat("x", i)}
		case 1:
			r.Value.Labels = map[string]string{}
		}
		kind := labelledThings
		if i%3 == 0 {
			kind = wholeThings
		}
		require.NoError(t, w.commit(func(t *store.Txn) { kind.Create(t, r) }))
		made = append(made, r)
	}
	slices.SortFunc(made, func(a, b *store.Record[labelled]) int { return strings.Compare(b.ID, a.ID) })
	for _, ascending := range []bool{false, true} {
		p := store.Page{Limit: 3, Ascending: ascending}
		for i, more := 0, true; more; {
			var page []*store.Record[labelled]
			var err error
			page, more, err = labelledThings.List(t.Context(), w.store, acme, p, nil)
			require.NoError(t, err)
			for _, r := range page {
				want := made[i]
				if ascending {
					want = made[len(made)-1-i]
				}
				require.Equal(t, want.ID, r.ID)
				require.Equal(t, want.Value, r.Value, "none and empty are different")
				p.After, i = r.ID, i+1
			}
		}
	}
	require.NoError(t, w.commit(func(t *store.Txn) { labelledThings.DeleteAll(t, acme) }))
	require.Empty(t, w.keys())
}

func TestTheVersionBeforeLosesNothingOfWhatIsWrittenOnce(t *testing.T) {
	w := newWorld(t)
	old := &store.Record[labelled]{Tenant: acme, ID: labelledThings.NewID(),
		Value: labelled{Labels: map[string]string{"a": "old"}}}
	require.NoError(t, w.commit(func(t *store.Txn) { wholeThings.Create(t, old) }))
	r := w.labelled(old.ID)
	require.Equal(t, old.Value, r.Value, "its records are read")
	r.Value.N = 1
	require.NoError(t, w.commit(func(t *store.Txn) { labelledThings.Update(t, r) }))
	require.NotContains(t, w.value("labelled/"), "old", "a record is rewritten as the others are")
	require.Equal(t, r.Value, w.labelled(old.ID).Value)

	before, err := wholeThings.Get(t.Context(), w.store, acme, old.ID)
	require.NoError(t, err)
	require.Equal(t, labelled{N: 1}, before.Value, "the version before does not see it")
	before.Value.N = 2
	require.NoError(t, w.commit(func(t *store.Txn) { wholeThings.Update(t, before) }))
	require.Equal(t, labelled{N: 2, Labels: map[string]string{"a": "old"}}, w.labelled(old.ID).Value,
		"and keeps it all the same")
}
