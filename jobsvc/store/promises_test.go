package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestAFileInUse(t *testing.T) {
	w := newWorld(t)
	unused := func(t *store.Txn) { t.Unused("file-1") }
	require.NoError(t, w.commit(unused))
	require.NoError(t, w.commit(func(t *store.Txn) {
		t.Use("file-1", "batch_1")
		t.Use("file-1", "a/b")
		t.Use("file-12",
			"batch_1")
	}))
	require.ErrorIs(t, w.commit(unused), store.ErrConflict)
	require.NoError(t, w.commit(func(t *store.Txn) { t.Free("file-1", "batch_1") }))
	require.ErrorIs(t, w.commit(unused), store.ErrConflict, "there is another user")
	require.NoError(t, w.commit(func(t *store.Txn) { t.Free("file-1", "a/b"); t.Free("file-1", "never used it") }))
	require.NoError(t, w.commit(unused), "another file's user is none")
}

func TestReapRemovesWhatHasExpired(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1_800_000_000, 0)
	expiry := func(kind string, tenant store.Tenant, name string, at time.Duration) store.Expiry {
		return store.Expiry{Kind: kind, Tenant: tenant, ID: name, At: now.Add(at).Unix()}
	}
	taken := expiry("a", acme, "kept", -time.Second)
	require.NoError(t, w.commit(func(t *store.Txn) {
		for i := range 150 {
			t.ExpireAt(expiry("a", acme, fmt.Sprintf("many-%03d", i), -time.Hour))
		}
		t.ExpireAt(expiry("a", acme, "now", 0))
		t.ExpireAt(expiry("a", acme, "later", time.Second))
		t.ExpireAt(expiry("b/c", acme, "same", -time.Second))
		t.ExpireAt(expiry("b/c", store.Tenant{Organization: "globex"}, "same", -time.Second))
		t.ExpireAt(expiry("b/c", acme, "failing", -time.Minute))
		t.ExpireAt(expiry("unknown", acme, "x", -time.Minute))
		t.ExpireAt(taken)
	}))
	require.NoError(t, w.commit(func(t *store.Txn) { t.Keep(taken); t.Keep(expiry("a", acme, "never said", 0)) }))
	reaped := map[string]int{}
	broken := errors.New("broken")
	failing := true
	handle := func(_ context.Context, e store.Expiry) error {
		if e.ID == "failing" && failing {
			return broken
		}
		reaped[e.Kind+" "+e.Tenant.Organization+" "+e.ID]++
		return nil
	}
	handlers := map[string]func(context.Context, store.Expiry) error{"a": handle, "b/c": handle}

	err := w.store.Reap(t.Context(), now, handlers)
	require.Error(t, err)
	require.ErrorIs(t, err, broken, "the first error is told")
	require.Len(t, reaped, 153, "all others are tried")
	require.Equal(t, 1, reaped["b/c acme same"])
	require.Equal(t, 1, reaped["b/c globex same"])
	require.Equal(t, 1, reaped["a acme now"])

	failing = false
	handlers["unknown"] = handle
	require.NoError(t, w.store.Reap(t.Context(), now, handlers))
	require.Len(t, reaped, 155, "what failed is tried again")
	require.NoError(t, w.store.Reap(t.Context(), now, handlers))
	for name, n := range reaped {
		require.Equal(t, 1, n, name)
	}
	require.NoError(t, w.store.Reap(t.Context(), now.Add(time.Second), handlers))
	require.Equal(t, 1, reaped["a acme later"])
	require.Empty(t, w.keys())
}

func TestTheSameRequestHasTheSameAnswer(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1_800_000_000, 0)
	first := &store.Idempotency{Tenant: acme, Key: "k", Fingerprint: "f"}
	for _, none := range []*store.Idempotency{nil, {}, first} {
		body, err := w.store.Recall(t.Context(), none)
		require.NoError(t, err)
		require.Nil(t, body)
	}
	remember := func(i *store.Idempotency, body string) error {
		return w.commit(func(t *store.Txn) { t.Remember(i, json.RawMessage(body), now) })
	}
	require.NoError(t, remember(nil, `1`))
	require.NoError(t, remember(&store.Idempotency{}, `1`))
	require.Empty(t, w.keys(), "without a key nothing is remembered")
	require.NoError(t, remember(first, `{"id":1}`))
	require.ErrorIs(t, remember(first, `{"id":2}`), store.ErrConflict)
	body, err := w.store.Recall(t.Context(), first)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":1}`, string(body))
	_, err = w.store.Recall(t.Context(), &store.Idempotency{Tenant: acme, Key: "k", Fingerprint: "g"})
	require.ErrorIs(t, err, store.ErrOtherRequest)

	other := &store.Idempotency{Tenant: store.Tenant{Organization: "globex"}, Key: "k", Fingerprint: "g"}
	require.NoError(t, remember(other, `{"id":3}`), "another tenant's key is another")
	for _, key := range w.keys() {
		require.NotContains(t, key, "/k", "a key may say more than it should")
	}
	handlers := map[string]func(context.Context, store.Expiry) error{store.KindIdempotency: w.store.Forget}
	require.NoError(t, w.store.Reap(t.Context(), now.Add(24*time.Hour-time.Second), handlers))
	require.Len(t, w.keys(), 4)
	require.NoError(t, w.store.Reap(t.Context(), now.Add(24*time.Hour), handlers))
	require.Empty(t, w.keys())
}

func TestOfTheSameRequestsAtOnceOneIsMade(t *testing.T) {
	w := newWorld(t)
	const n = 20
	same := &store.Idempotency{Tenant: acme, Key: "k", Fingerprint: "f"}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			errs[i] = w.commit(func(t *store.Txn) {
				things.Create(t, &store.Record[thing]{Tenant: acme, ID: things.NewID(), Value: thing{i}})
				t.Remember(same, json.RawMessage(fmt.Sprint(i)), time.Now())
			})
		})
	}
	all.Wait()
	made := slices.Index(errs, nil)
	for i, err := range errs {
		if i != made {
			require.ErrorIs(t, err, store.ErrConflict)
		}
	}
	page, _ := w.list(acme, store.Page{Limit: n}, nil)
	require.Len(t, page, 1)
	body, err := w.store.Recall(t.Context(), same)
	require.NoError(t, err)
	require.JSONEq(t, fmt.Sprint(made), string(body))
	require.Equal(t, made, page[0].Value.N)
}
