package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/jobsvc/store"
)

type thing struct {
	N int `json:"n"`
}

var (
	things = store.Kind[thing]{Name: "things", Prefix: "thing_"}
	acme   = store.Tenant{Organization: "acme", Project: "search"}
)

// A world is a store on a real etcd.
type world struct {
	*testing.T
	etcd  *clientv3.Client
	store *store.Store
}

func newWorld(t *testing.T) *world {
	etcd := etcdtest.Start(t)
	return &world{t, etcd, store.New(etcd)}
}

// commit commits what fill puts into a transaction.
func (w *world) commit(fill func(*store.Txn)) error {
	txn := w.store.Begin()
	fill(txn)
	return txn.Commit(w.Context())
}

func (w *world) create(tenant store.Tenant, n int) *store.Record[thing] {
	w.Helper()
	r := &store.Record[thing]{Tenant: tenant, ID: things.NewID(), Value: thing{n}}
	require.NoError(w, w.commit(func(t *store.Txn) { things.Create(t, r) }))
	return r
}

// createMany creates things a millisecond apart and returns them newest first.
func (w *world) createMany(tenant store.Tenant, n int) []*store.Record[thing] {
	w.Helper()
	var all []*store.Record[thing]
	begin := time.Now().Add(-time.Hour)
	for first := 0; first < n; first += 100 {
		require.NoError(w, w.commit(func(t *store.Txn) {
			for i := first; i < min(first+100, n); i++ {
				made := id.Derived(begin.Add(time.Duration(i)*time.Millisecond), fmt.Sprint(i))
				r := &store.Record[thing]{Tenant: tenant, ID: things.Prefix + made, Value: thing{i}}
				things.Create(t, r)
				all = append(all, r)
			}
		}))
	}
	slices.Reverse(all)
	return all
}

func (w *world) list(tenant store.Tenant, p store.Page, keep func(*store.Record[thing]) bool) ([]*store.Record[thing],
	bool) {
	w.Helper()
	page, more, err := things.List(w.Context(), w.store, tenant, p, keep)
	require.NoError(w, err)
	return page, more
}

func (w *world) keys() []string {
	w.Helper()
	r, err := w.etcd.Get(w.Context(), store.Root, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	require.NoError(w, err)
	keys := []string{}
	for _, kv := range r.Kvs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), store.Root))
	}
	return keys
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	w := newWorld(t)
	r := w.create(acme, 7)
	require.Positive(t, r.Revision)
	got, err := things.Get(t.Context(), w.store, acme, r.ID)
	require.NoError(t, err)
	require.Equal(t, r, got)

	got.Value.N = 8
	require.NoError(t, w.commit(func(t *store.Txn) { things.Update(t, got) }))
	require.Greater(t, got.Revision, r.Revision)
	again, err := things.Get(t.Context(), w.store, acme, r.ID)
	require.NoError(t, err)
	require.Equal(t, got, again)
	require.NoError(t, w.commit(func(t *store.Txn) { things.Delete(t, again) }))
	_, err = things.Get(t.Context(), w.store, acme, r.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestListsAreWholeAndSayExactlyWhetherThereIsMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 1234
	all := w.createMany(acme, n)
	w.createMany(store.Tenant{Organization: "acme", Project: "searchx"}, 3)
	third := func(r *store.Record[thing]) bool { return r.Value.N%3 == 0 }
	none := func(*store.Record[thing]) bool { return false }
	oldest := slices.Clone(all)
	slices.Reverse(oldest)
	for name, tc := range map[string]struct {
		ascending bool
		keep      func(*store.Record[thing]) bool
		want      []*store.Record[thing]
	}{
		"newest first":           {false, nil, all},
		"oldest first":           {true, nil, oldest},
		"newest first, filtered": {false, third, filtered(all, third)},
		"oldest first, filtered": {true, third, filtered(oldest, third)},
		"filtered to nothing":    {false, none, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{1, 7, 499, 500, 501, n - 1, n, n + 1, len(tc.want), len(tc.want) - 1, 10_000} {
				if limit < 1 || limit == 1 && !strings.Contains(name, "nothing") { // pages of one are in another test
					continue
				}
				p := store.Page{Limit: limit, Ascending: tc.ascending}
				rest := tc.want
				for more := true; more; {
					var page []*store.Record[thing]
					page, more = w.list(acme, p, tc.keep)
					size := min(limit, len(rest))
					require.Equal(t, ids(rest[:size]), ids(page), "limit %d", limit)
					rest = rest[size:]
					require.Equal(t, len(rest) > 0, more, "limit %d, %d are left", limit, len(rest))
					if len(page) > 0 {
						p.After = page[len(page)-1].ID
					}
				}
				require.Empty(t, rest)
			}
		})
	}
	// From anywhere to either side.
	for _, i := range []int{0, 1, n / 2, n - 2, n - 1} {
		older, more := w.list(acme, store.Page{After: all[i].ID, Limit: 1}, nil)
		require.Equal(t, ids(all[i+1:min(i+2, n)]), ids(older))
		require.Equal(t, i+2 < n, more)
		newer, more := w.list(acme, store.Page{After: all[i].ID, Limit: 1, Ascending: true}, nil)
		require.Equal(t, ids(all[max(i-1, 0):i]), ids(newer))
		require.Equal(t, i > 1, more)
	}
}

func filtered(all []*store.Record[thing], keep func(*store.Record[thing]) bool) []*store.Record[thing] {
	return slices.DeleteFunc(slices.Clone(all), func(r *store.Record[thing]) bool { return !keep(r) })
}

func ids(all []*store.Record[thing]) []string {
	found := []string{}
	for _, r := range all {
		found = append(found, r.ID)
	}
	return found
}

func TestCursors(t *testing.T) {
	w := newWorld(t)
	all := w.createMany(acme, 5)
	require.NoError(t, w.commit(func(t *store.Txn) { things.Delete(t, all[2]) }))
	page, more := w.list(acme, store.Page{After: all[2].ID, Limit: 1}, nil)
	require.Equal(t, ids(all[3:4]), ids(page), "where a deleted object was is still known")
	require.True(t, more)
	page, _ = w.list(acme, store.Page{After: all[2].ID, Limit: 9, Ascending: true}, nil)
	require.Equal(t, []string{all[1].ID, all[0].ID}, ids(page))

	other := w.create(store.Tenant{Organization: "globex"}, 1)
	page, more = w.list(acme, store.Page{After: other.ID, Limit: 9}, nil)
	require.Equal(t, []string{all[0].ID, all[1].ID, all[3].ID, all[4].ID}, ids(page),
		"another's id is a time, and tells nothing")
	require.False(t, more)

	for _, after := range []string{"x", "thing_", "thing_x", all[0].ID + "0", all[0].ID[1:], strings.ToLower(all[0].ID),
		"batch_" + all[0].ID[6:],
		"thing_" + strings.Repeat("Z", 26), "../" + all[0].ID, all[0].ID + "/"} {
		_, _, err := things.List(t.Context(), w.store, acme, store.Page{After: after, Limit: 1}, nil)
		require.ErrorIs(t, err, store.ErrCursor, after)
		_, err = things.Get(t.Context(), w.store, acme, after)
		require.ErrorIs(t, err, store.ErrNotFound, after)
	}
}

func TestTenantsAreApart(t *testing.T) {
	w := newWorld(t)
	var made []*store.Record[thing]
	for i, tenant := range []store.Tenant{acme, {"acme", ""}, {"", "acme"}, {"", ""}, {"acme/search", ""},
		{"acme", "search/x"}, {"acme%2Fsearch", ""}, {"Acme", "search"}, {"ac", "me"}, {"acme ", "search"}} {
		made = append(made, w.create(tenant, i))
	}
	for _, r := range made {
		page, more := w.list(r.Tenant, store.Page{Limit: 100}, nil)
		require.Equal(t, []string{r.ID}, ids(page), "%+v", r.Tenant)
		require.Equal(t, r, page[0])
		require.False(t, more)
		for _, other := range made {
			_, err := things.Get(t.Context(), w.store, r.Tenant, other.ID)
			require.Equal(t, other != r, errors.Is(err, store.ErrNotFound))
		}
	}
	part := store.Kind[thing]{Name: "parts", Prefix: "part_"}
	for _, parent := range []string{"a", "a/b", "a%2Fb"} {
		r := &store.Record[thing]{Tenant: acme, ID: part.NewID()}
		require.NoError(t, w.commit(func(t *store.Txn) { part.Under(parent).Create(t, r) }))
	}
	require.NoError(t, w.commit(func(t *store.Txn) { part.Under("a").DeleteAll(t, acme) }))
	require.Len(t, w.keys(), len(made)+2)
}

func TestConflictsChangeNothing(t *testing.T) {
	w := newWorld(t)
	r := w.create(acme, 1)
	stale := *r
	r.Value.N = 2
	require.NoError(t, w.commit(func(t *store.Txn) { things.Update(t, r) }))
	for name, fill := range map[string]func(*store.Txn){
		"create what is there":         func(t *store.Txn) { c := *r; things.Create(t, &c) },
		"update what was changed":      func(t *store.Txn) { c := stale; things.Update(t, &c) },
		"delete what was changed":      func(t *store.Txn) { things.Delete(t, &stale) },
		"require what was changed":     func(t *store.Txn) { things.Unchanged(t, &stale) },
		"update what is not there":     func(t *store.Txn) { c := stale; c.ID = things.NewID(); things.Update(t, &c) },
		"delete what is not there":     func(t *store.Txn) { c := stale; c.ID = things.NewID(); things.Delete(t, &c) },
		"require an unmet comparison":  func(t *store.Txn) { t.Require(clientv3.Compare(clientv3.Version("x"), ">", 0)) },
		"use another tenant's as ours": func(t *store.Txn) { c := *r; c.Tenant.Project = "x"; things.Update(t, &c) },
	} {
		before := w.keys()
		err := w.commit(func(t *store.Txn) {
			fill(t)
			things.Put(t, &store.Record[thing]{Tenant: acme, ID: things.NewID()})
			t.Use("file", "by")
			t.ExpireAt(store.Expiry{ID: "x"})
		})
		require.ErrorIs(t, err, store.ErrConflict, name)
		require.Equal(t, before, w.keys(), name)
		got, err := things.Get(t.Context(), w.store, acme, r.ID)
		require.NoError(t, err)
		require.Equal(t, r, got, name)
	}
	require.NoError(t, w.commit(func(t *store.Txn) { things.Put(t, &stale) }), "Put asks nothing")
	require.NoError(t, w.commit(func(t *store.Txn) { things.Drop(t, acme, stale.ID) }), "nor does Drop")
	require.NoError(t, w.commit(func(t *store.Txn) { things.Drop(t, acme, stale.ID) }))
	require.Empty(t, w.keys())
}

func TestTransactionsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for name, fill := range map[string]func(*store.Txn){
		"an id of another kind":  func(t *store.Txn) { things.Create(t, &store.Record[thing]{ID: "batch_1"}) },
		"delete no id":           func(t *store.Txn) { things.Delete(t, &store.Record[thing]{ID: "x"}) },
		"drop no id":             func(t *store.Txn) { things.Drop(t, acme, "x") },
		"a record out of bounds": tooLarge,
		"too many comparisons": func(t *store.Txn) {
			for range 128 {
				things.Create(t, &store.Record[thing]{ID: things.NewID()})
			}
		},
		"an answer that is no JSON": func(t *store.Txn) {
			t.Remember(&store.Idempotency{Key: "k"}, json.RawMessage("{"), time.Now())
		},
	} {
		require.Error(t, w.commit(func(t *store.Txn) { fill(t); t.Use("file", "by") }), name)
		require.Empty(t, w.keys(), name)
	}
}

func tooLarge(t *store.Txn) {
	kind := store.Kind[string]{Name: "large", Prefix: "l_"}
	kind.Create(t, &store.Record[string]{ID: kind.NewID(), Value: strings.Repeat("x", store.MaxBytes)})
}

func TestALargeTransactionIsOne(t *testing.T) {
	w := newWorld(t)
	all := w.createMany(acme, 300)
	fill := func(t *store.Txn) {
		for _, r := range all {
			r.Value.N = -1
			things.Put(t, r)
		}
	}
	require.NoError(t, w.commit(fill))
	for compared := range 5 { // what is required counts too
		require.NoError(t, w.commit(func(t *store.Txn) {
			for _, r := range all[:30*compared] {
				things.Unchanged(t, r)
			}
			fill(t)
		}), "%d comparisons", 30*compared)
	}
	page, _ := w.list(acme, store.Page{Limit: 300}, nil)
	for _, r := range page {
		require.Equal(t, -1, r.Value.N)
		require.Equal(t, page[0].Revision, r.Revision, "at one revision")
	}
	require.Equal(t, ids(all), ids(page))
	require.ErrorIs(t, w.commit(func(t *store.Txn) {
		for _, r := range all {
			things.Drop(t, acme, r.ID)
		}
		things.Unchanged(t, &store.Record[thing]{Tenant: acme, ID: all[0].ID, Revision: 1})
	}), store.ErrConflict)
	require.Len(t, w.keys(), 300)
}

func TestAWatchTellsOfChanges(t *testing.T) {
	w := newWorld(t)
	r := w.create(acme, 1)
	ctx, stop := context.WithCancel(t.Context())
	seen := *r
	r.Value.N = 2
	require.NoError(t, w.commit(func(t *store.Txn) { things.Update(t, r) }))
	changed := things.Watch(ctx, w.store, &seen)
	<-changed // of a change that came before the watch
	for range 10 {
		require.NoError(t, w.commit(func(t *store.Txn) { things.Update(t, r) }))
	}
	<-changed
	require.NoError(t, w.commit(func(t *store.Txn) { things.Delete(t, r) }))
	<-changed
	stop()
	for range changed { // it closes
	}
}

func TestWithoutEtcdThereIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t)
	s := store.New(server.Client(t)).Within(500 * time.Millisecond)
	r := &store.Record[thing]{Tenant: acme, ID: things.NewID()}
	create := func() error {
		txn := s.Begin()
		things.Create(txn, r)
		return txn.Commit(t.Context())
	}
	require.NoError(t, create())
	server.Stop()
	var all sync.WaitGroup
	for name, try := range map[string]func() error{
		"get":    func() error { _, err := things.Get(t.Context(), s, acme, r.ID); return err },
		"list":   func() error { _, _, err := things.List(t.Context(), s, acme, store.Page{Limit: 1}, nil); return err },
		"write":  create,
		"recall": func() error { _, err := s.Recall(t.Context(), &store.Idempotency{Key: "k"}); return err },
	} {
		all.Go(func() {
			began := time.Now()
			err := try()
			if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
				t.Errorf("%s: %v", name, err)
			}
			if waited := time.Since(began); waited > 4*time.Second {
				t.Errorf("%s: the error came after %v", name, waited)
			}
		})
	}
	all.Wait()
	server.Start(t)
	require.Eventually(t, func() bool { return errors.Is(create(), store.ErrConflict) }, 20*time.Second,
		10*time.Millisecond, "it was there all the time")
}

// TestAChangeOfLeaderIsNotSeenByWhoReads: etcd's client reads again by itself, but does not repeat a transaction.
func TestAChangeOfLeaderIsNotSeenByWhoReads(t *testing.T) {
	etcd := etcdtest.New(t)
	var refused atomic.Int64
	refused.Store(3)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, a any, cc *grpc.ClientConn,
				call grpc.UnaryInvoker, o ...grpc.CallOption) error {
				if refused.Add(-1) >= 0 {
					return rpctypes.ErrGRPCLeaderChanged
				}
				return call(ctx, method, q, a, cc, o...)
			}),
		}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = things.Get(t.Context(), store.New(client), acme, things.NewID())
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Negative(t, refused.Load())
}
