package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// a parcel is a batch that is open, or not, and has a size.
type parcel struct {
	Key  string
	Open bool
	Size int64
}

var parcels = store.Kind[parcel]{Name: "parcels", Prefix: "parcel_", Counts: func(p *parcel) (string, store.Amounts) {
	var a store.Amounts
	a[store.KeptBatches], a[store.RecordBytes] = 1, p.Size
	if p.Open {
		a[store.OpenBatches] = 1
	}
	return p.Key, a
}}

func newParcel(t store.Tenant, p parcel) *store.Record[parcel] {
	return &store.Record[parcel]{Tenant: t, ID: parcels.NewID(), Value: p}
}

// limit returns bounds of one quota for an account; all others are far away.
func limit(a store.Account, q store.Quota, n int64) store.Bounds {
	var limits store.Amounts
	for i := range limits {
		limits[i] = 1 << 40
	}
	limits[q] = n
	return store.Bounds{a: limits}
}

func used(t *testing.T, s *store.Store, a store.Account) store.Amounts {
	t.Helper()
	usages, err := s.Usages(t.Context())
	require.NoError(t, err)
	return usages[a].Counted
}

// replicas are stores of several processes over one etcd.
func replicas(t *testing.T, n int) []*store.Store {
	server := etcdtest.New(t)
	all := make([]*store.Store, n)
	for i := range all {
		all[i] = store.New(server.Client(t)).Counting(parcels)
	}
	return all
}

func create(t *testing.T, s *store.Store, r *store.Record[parcel], b store.Bounds) error {
	txn := s.Begin()
	txn.Within(b)
	parcels.Create(txn, r)
	return txn.Commit(t.Context())
}

func TestExactlyTheQuotaIsAdmittedToWhomeverComes(t *testing.T) {
	const quota, asking = 25, 90
	all := replicas(t, 3)
	org := store.Account{Organization: "acme"}
	bounds := limit(org, store.KeptBatches, quota)
	var made, refused atomic.Int64
	var group sync.WaitGroup
	for i := range asking {
		group.Go(func() {
			tenant := store.Tenant{Organization: "acme", Project: []string{"", "web", "app"}[i%3]}
			err := create(t, all[i%len(all)], newParcel(tenant, parcel{Size: 10}), bounds)
			var over *store.QuotaError
			switch {
			case err == nil:
				made.Add(1)
			case errors.As(err, &over) && over.Quota == store.KeptBatches && over.Limit == quota && over.Account == org:
				refused.Add(1)
			default:
				t.Errorf("neither made nor refused: %v", err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, quota, made.Load())
	require.EqualValues(t, asking-quota, refused.Load())
	require.EqualValues(t, quota, used(t, all[0], org)[store.KeptBatches])
	projects := used(t, all[0], store.Account{Organization: "acme", Project: "web"})[store.KeptBatches] +
		used(t, all[0], store.Account{Organization: "acme", Project: "app"})[store.KeptBatches]
	require.LessOrEqual(t, projects, int64(quota))
	found, err := all[1].Recount(t.Context())
	require.NoError(t, err)
	require.Empty(t, found, "what was counted is what is there")
}

func TestWhatGoesIsGivenBack(t *testing.T) {
	all := replicas(t, 2)
	tenant, org, project := store.Tenant{Organization: "a/b", Project: "c"}, store.Account{Organization: "a/b"},
		store.Account{Organization: "a/b", Project: "c"}
	r := newParcel(tenant, parcel{Open: true, Size: 7})
	require.NoError(t, create(t, all[0], r, nil))
	want := store.Amounts{}
	want[store.OpenBatches], want[store.KeptBatches], want[store.RecordBytes] = 1, 1, 7
	require.Equal(t, want, used(t, all[0], org))
	require.Equal(t, want, used(t, all[0], project))

	read, err := parcels.Get(t.Context(), all[1], tenant, r.ID)
	require.NoError(t, err)
	read.Value.Open, read.Value.Size = false, 9
	txn := all[1].Begin()
	parcels.Update(txn, read)
	require.NoError(t, txn.Commit(t.Context()))
	want[store.OpenBatches], want[store.RecordBytes] = 0, 9
	require.Equal(t, want, used(t, all[0], project))

	txn = all[0].Begin()
	parcels.Delete(txn, r)
	require.ErrorIs(t, txn.Commit(t.Context()), store.ErrConflict, "it was changed since")
	require.Equal(t, want, used(t, all[0], org), "a conflict counts nothing")

	txn = all[0].Begin()
	parcels.Delete(txn, read)
	require.NoError(t, txn.Commit(t.Context()))
	require.Equal(t, store.Amounts{}, used(t, all[0], org))
	require.Equal(t, store.Amounts{}, used(t, all[0], project))
}

func TestRoomOnAnotherReplicaIsSeen(t *testing.T) {
	all := replicas(t, 2)
	tenant, org := store.Tenant{Organization: "acme"}, store.Account{Organization: "acme"}
	bounds := limit(org, store.KeptBatches, 1)
	first := newParcel(tenant, parcel{})
	require.NoError(t, create(t, all[0], first, bounds))
	require.Error(t, create(t, all[0], newParcel(tenant, parcel{}), bounds))
	txn := all[1].Begin()
	parcels.Delete(txn, first)
	require.NoError(t, txn.Commit(t.Context()))
	require.NoError(t, create(t, all[0], newParcel(tenant, parcel{}), bounds),
		"what is known is read again before anybody is refused")
}

func TestKeysWithoutAnOrganizationHaveAnAccountEach(t *testing.T) {
	s := replicas(t, 1)[0]
	greedy, other := store.Account{Key: "key_1"}, store.Account{Key: "key_2"}
	require.NoError(t, create(t, s, newParcel(store.Tenant{}, parcel{Key: "key_1"}), limit(greedy, store.KeptBatches, 1)))
	var over *store.QuotaError
	require.ErrorAs(t, create(t, s, newParcel(store.Tenant{}, parcel{Key: "key_1"}), limit(greedy, store.KeptBatches, 1)),
		&over)
	require.NoError(t, create(t, s, newParcel(store.Tenant{}, parcel{Key: "key_2"}), limit(other, store.KeptBatches, 1)))
	require.EqualValues(t, 1, used(t, s, other)[store.KeptBatches])
}

func TestAStoreThatIsOlderThanQuotasIsCountedOnce(t *testing.T) {
	server := etcdtest.New(t)
	old := store.New(server.Client(t)) // does not count
	for _, p := range []parcel{{Open: true, Size: 5}, {Size: 6}} {
		require.NoError(t, create(t, old, newParcel(store.Tenant{Organization: "acme", Project: "web"}, p), nil))
	}
	require.NoError(t, create(t, old, newParcel(store.Tenant{}, parcel{Key: "key_1"}), nil))
	i := &store.Idempotency{Tenant: store.Tenant{Organization: "acme", Project: "web"}, By: "key_9", Key: "k"}
	txn := old.Begin()
	txn.Remember(i, json.RawMessage(`"made"`), time.Now())
	require.NoError(t, txn.Commit(t.Context()))

	s := store.New(server.Client(t)).Counting(parcels)
	require.NoError(t, create(t, s, newParcel(store.Tenant{Organization: "acme"}, parcel{}), nil))
	require.EqualValues(t, 3, used(t, s, store.Account{Organization: "acme"})[store.KeptBatches])
	require.EqualValues(t, 1, used(t, s, store.Account{Organization: "acme"})[store.IdempotencyRecords])
	require.NoError(t, create(t, s, newParcel(store.Tenant{Organization: "acme", Project: "web"}, parcel{}), nil))
	require.EqualValues(t, 3, used(t, s, store.Account{Organization: "acme", Project: "web"})[store.KeptBatches])
	require.NoError(t, create(t, s, newParcel(store.Tenant{}, parcel{Key: "key_1"}), nil))
	require.EqualValues(t, 2, used(t, s, store.Account{Key: "key_1"})[store.KeptBatches])
	found, err := s.Recount(t.Context())
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestARecountIsExactWhateverChangesMeanwhile(t *testing.T) {
	server := etcdtest.New(t)
	old, s := store.New(server.Client(t)), store.New(server.Client(t)).Counting(parcels)
	tenant, org := store.Tenant{Organization: "acme"}, store.Account{Organization: "acme"}
	require.NoError(t, create(t, s, newParcel(tenant, parcel{}), nil))
	for range 5 { // a replica of the version before does not count
		require.NoError(t, create(t, old, newParcel(tenant, parcel{}), nil))
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				if err := create(t, s, newParcel(tenant, parcel{Size: 3}), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 { // at the same time, as replicas do it
		group.Go(func() {
			if _, err := store.New(server.Client(t)).Counting(parcels).Recount(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 86, used(t, s, org)[store.KeptBatches])
	require.EqualValues(t, 240, used(t, s, org)[store.RecordBytes])
}

func TestRememberedAnswersCountUntilTheyAreForgotten(t *testing.T) {
	s := replicas(t, 1)[0]
	i := &store.Idempotency{Tenant: store.Tenant{}, By: "key_1", Key: "k", Fingerprint: "f"}
	txn := s.Begin()
	txn.Remember(i, json.RawMessage(`{"id":"x"}`), time.Now().Add(-25*time.Hour))
	require.NoError(t, txn.Commit(t.Context()))
	account := store.Account{Key: "key_1"}
	require.EqualValues(t, 1, used(t, s, account)[store.IdempotencyRecords])
	require.NotZero(t, used(t, s, account)[store.RecordBytes])
	require.NoError(t, s.Reap(t.Context(), time.Now(),
		map[string]func(context.Context, store.Expiry) error{store.KindIdempotency: s.Forget}))
	require.Equal(t, store.Amounts{}, used(t, s, account))
}

func TestWhatIsArchivedIsKeptUntilItRetires(t *testing.T) {
	w := newArchive(t)
	kind := works
	kind.Name = "counted"
	kind.Counts = func(v *work) (string, store.Amounts) {
		var a store.Amounts
		a[store.KeptBatches], a[store.RecordBytes] = 1, int64(len(v.Label))
		return "key_1", a
	}
	w.store = w.store.Counting(kind)
	org := store.Account{Organization: acme.Organization}
	for i := range 130 {
		require.NoError(t, w.commit(func(txn *store.Txn) {
			kind.Create(txn, &store.Record[work]{Tenant: acme, ID: kind.NewID(),
				Value: work{N: i, Label: "12345", Ended: 1000}})
		}))
	}
	for range 2 {
		_, err := kind.Archive(t.Context(), w.store, acme, store.Move{Before: 2000, Busy: idle})
		require.NoError(t, err)
		found, err := w.store.Recount(t.Context())
		require.NoError(t, err)
		require.Empty(t, found, "segments are counted as they were")
		require.EqualValues(t, 130, used(t, w.store, org)[store.KeptBatches])
		require.Zero(t, used(t, w.store, org)[store.RecordBytes], "it takes no room in etcd any more")
	}
	n, err := kind.Retire(t.Context(), w.store, 3000, nil, nil)
	require.NoError(t, err)
	require.Equal(t, 130, n)
	require.Equal(t, store.Amounts{}, used(t, w.store, org))
}
