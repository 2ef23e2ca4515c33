package configstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

const patience = 30 * time.Second

// A follower is a Run whose states a test waits for.
type follower struct{ states chan configstore.State }

func follow(t *testing.T, store *configstore.Store) *follower {
	t.Helper()
	f := &follower{states: make(chan configstore.State, 10_000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		store.Run(ctx, func(s configstore.State) { f.states <- s })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// await returns the first state that is as wanted, and how many were delivered up to it.
func (f *follower) await(t *testing.T, wanted func(configstore.State) bool) (configstore.State, int) {
	t.Helper()
	timeout := time.After(patience)
	for n := 1; ; n++ {
		select {
		case s := <-f.states:
			if wanted(s) {
				return s, n
			}
		case <-timeout:
			t.Fatal("the state did not come")
		}
	}
}

func (f *follower) awaitRevision(t *testing.T, revision int64) configstore.State {
	t.Helper()
	s, _ := f.await(t, func(s configstore.State) bool { return s.Revision >= revision })
	return s
}

func names(s configstore.State) []string {
	all := []string{}
	for _, p := range configstore.All[*configv1.Provider](s) {
		all = append(all, p.GetName())
	}
	return all
}

func put(t *testing.T, store *configstore.Store, o configv1.Object) int64 {
	t.Helper()
	revision, err := store.Put(t.Context(), o, configstore.AnyRevision)
	require.NoError(t, err)
	return revision
}

func putRaw(t *testing.T, etcd *clientv3.Client, key, value string) int64 {
	t.Helper()
	r, err := etcd.Put(t.Context(), "/modelgate/v1/"+key, value)
	require.NoError(t, err)
	return r.Header.Revision
}

func TestRunDeliversWhatIsThereAndEveryChange(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	f := follow(t, store)
	empty := f.awaitRevision(t, 0)
	require.Empty(t, names(empty))
	require.Zero(t, empty.Revision)

	first := put(t, store, provider("b"))
	require.Equal(t, []string{"b"}, names(f.awaitRevision(t, first)))
	second := put(t, store, provider("a"))
	s := f.awaitRevision(t, second)
	require.Equal(t, []string{"a", "b"}, names(s))
	require.Equal(t, second, s.Revision)

	third, err := store.Delete(t.Context(), providers, "b", configstore.AnyRevision)
	require.NoError(t, err)
	after := f.awaitRevision(t, third)
	require.Equal(t, []string{"a"}, names(after))
	require.Equal(t, []string{"a", "b"}, names(s), "a state that was delivered does not change")
}

func TestReplicasAgreeOnTheRevision(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	running := follow(t, store)
	put(t, store, provider("a"))
	put(t, store, provider("b"))
	revision, err := store.Delete(t.Context(), providers, "b", configstore.AnyRevision)
	require.NoError(t, err)
	_, err = etcd.Put(t.Context(), "/elsewhere", "this is none of ours")
	require.NoError(t, err)

	require.Equal(t, revision, running.awaitRevision(t, revision).Revision)
	require.Equal(t, revision, follow(t, newStore(t, etcd)).awaitRevision(t, 0).Revision, "of one that starts now")
}

func TestTransactionIsNeverSeenInParts(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	f := follow(t, store)
	base := int64(1)
	for round := range 10 {
		var changes []configstore.Change
		for i := range 200 {
			p := provider(fmt.Sprintf("p%d", i))
			p.Models = []string{fmt.Sprintf("round-%d", round)}
			changes = append(changes, change(p))
		}
		var err error
		base, err = store.Apply(t.Context(), base, changes)
		require.NoError(t, err)
	}
	f.await(t, func(s configstore.State) bool {
		rounds := map[string]bool{}
		all := configstore.All[*configv1.Provider](s)
		for _, p := range all {
			rounds[p.GetModels()[0]] = true
		}
		require.LessOrEqual(t, len(rounds), 1)
		require.Contains(t, []int{0, 200}, len(all))
		return s.Revision == base
	})
}

func TestBurstIsDeliveredTogether(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	f := follow(t, store)
	f.awaitRevision(t, 0)
	const burst = 300
	var last int64
	for i := range burst {
		last = putRaw(t, etcd, fmt.Sprintf("providers/p%d", i), fmt.Sprintf(`{"name":"p%d","vendor":"openai"}`, i))
	}
	s, deliveries := f.await(t, func(s configstore.State) bool { return s.Revision == last })
	require.Len(t, names(s), burst)
	require.Less(t, deliveries, burst/2)
}

func TestGarbageIsReportedAndTheLastGoodVersionStays(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	f := follow(t, store)
	put(t, store, provider("a"))
	ref := configstore.Ref{Kind: "Provider", Name: "a"}
	for _, garbage := range []string{"\x00", `{"name":"a","vendor":"x","y":1}`, `{"name":"a"}`,
		`{"name":"b","vendor":"x"}`, ""} {
		s := f.awaitRevision(t, putRaw(t, etcd, "providers/a", garbage))
		require.Equal(t, []string{"a"}, names(s), "%q", garbage)
		require.Error(t, s.Errors[ref], "%q", garbage)

		late := follow(t, newStore(t, etcd)).awaitRevision(t, 0)
		require.Equal(t, []string{"a"}, names(late), "a replica that starts now agrees, %q", garbage)
		require.Error(t, late.Errors[ref])
		require.Equal(t, s.Revision, late.Revision)
	}
	stray := f.awaitRevision(t, putRaw(t, etcd, "what/is/this", "x"))
	require.Error(t, stray.Errors[configstore.Ref{Name: "/modelgate/v1/what/is/this"}])

	healed := f.awaitRevision(t, put(t, store, provider("a")))
	require.NoError(t, healed.Errors[ref])
}

func TestObjectThatNeverWasGoodIsOnlyAnError(t *testing.T) {
	etcd := etcdtest.Start(t)
	putRaw(t, etcd, "providers/a", "1")
	putRaw(t, etcd, "providers/a", "2")
	s := follow(t, newStore(t, etcd)).awaitRevision(t, 0)
	require.Empty(t, names(s))
	require.Len(t, s.Errors, 1)
}

func TestDeletedObjectDoesNotComeBackByGarbage(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	put(t, store, provider("a"))
	_, err := store.Delete(t.Context(), providers, "a", configstore.AnyRevision)
	require.NoError(t, err)
	putRaw(t, etcd, "providers/a", "garbage")
	require.Empty(t, names(follow(t, store).awaitRevision(t, 0)))
}

func TestCompactionOfTheLastGoodVersionIsTolerated(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	put(t, store, provider("a"))
	put(t, store, provider("b"))
	revision := putRaw(t, etcd, "providers/a", "garbage")
	_, err := etcd.Compact(t.Context(), revision)
	require.NoError(t, err)
	s := follow(t, store).awaitRevision(t, 0)
	require.Equal(t, []string{"b"}, names(s))
	require.Len(t, s.Errors, 1)
}

func TestFollowingGoesOnAfterEtcdWasAway(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t)
	store := newStore(t, server.Client(t))
	f := follow(t, store)
	before := put(t, store, provider("a"))
	f.awaitRevision(t, before)

	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := store.Put(ctx, provider("b"), 0)
	require.Error(t, err)
	server.Start(t)

	after := put(t, newStore(t, server.Client(t)), provider("c"))
	s, _ := f.await(t, func(s configstore.State) bool {
		require.Contains(t, names(s), "a", "nothing was delivered half-filled")
		return s.Revision >= after
	})
	require.Contains(t, names(s), "c")
}

func TestFollowingGoesOnAfterACompactionThatItMissed(t *testing.T) {
	t.Parallel()
	server := etcdtest.New(t)
	etcd := server.Client(t)
	// This store's connection is lost, and it comes back only when what it has missed is compacted.
	severed, between := severable(t, server)
	f := follow(t, newStore(t, severed))
	store := newStore(t, etcd)
	f.awaitRevision(t, put(t, store, provider("a")))
	between.set(false)
	put(t, store, provider("b"))
	revision, err := store.Delete(t.Context(), providers, "a", configstore.AnyRevision)
	require.NoError(t, err)
	put(t, store, provider("bad"))
	last := putRaw(t, etcd, "providers/bad", "garbage")
	_, err = etcd.Compact(t.Context(), last)
	require.NoError(t, err)
	between.set(true)
	s := f.awaitRevision(t, revision)
	require.Equal(t, []string{"b"}, names(s))
	require.Len(t, s.Errors, 1)
}

func TestRunEndsWithItsContextAlsoWhileEtcdIsAway(t *testing.T) {
	server := etcdtest.New(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	server.Stop()
	ignored := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		configstore.New(client, validate, zap.NewNop()).Run(ctx, func(configstore.State) { t.Error("delivered") })
	}()
	cancel()
	<-done
	_ = client.Close()
	goleak.VerifyNone(t, ignored)
}
