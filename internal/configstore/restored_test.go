package configstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

// TestAnEtcdThatWasReplacedIsFollowed has etcd lost, and a backup restored into another that has a lower revision,
// under a follower that goes on. What it delivers is what was there before, and then what was restored.
func TestAnEtcdThatWasReplacedIsFollowed(t *testing.T) {
	t.Parallel()
	before, after := etcdtest.New(t), etcdtest.New(t)
	client, connect := severable(t, before)
	good := func(configv1.Object) error { return nil }
	store := configstore.New(client, good, zap.NewNop())
	require.NoError(t, store.Claim(t.Context(), "a"))
	for range 50 {
		put(t, store, provider("early"))
	}
	f := follow(t, store)
	last := f.awaitRevision(t, put(t, store, provider("late")))
	require.Equal(t, []string{"early", "late"}, names(last))

	connect.set(false)
	connect.to(after)
	empty := after.Client(t)
	put(t, configstore.New(empty, good, zap.NewNop()), provider("early"))
	_, err := empty.Put(t.Context(), configstore.RestoringKey, "x")
	require.NoError(t, err)
	connect.set(true)
	// The follower has seen the etcd that is being restored when it has read from it.
	_, err = client.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !store.Following() }, 20*time.Second, 10*time.Millisecond)
	_, err = empty.Txn(t.Context()).Then(clientv3.OpPut(configstore.RootKey, "a"),
		clientv3.OpDelete(configstore.RestoringKey)).Commit()
	require.NoError(t, err)

	restored, _ := f.await(t, func(s configstore.State) bool { return s.Revision < last.Revision })
	require.True(t, store.Following())
	require.Equal(t, []string{"early"}, names(restored))
	put(t, configstore.New(empty, good, zap.NewNop()), provider("new"))
	f.await(t, func(s configstore.State) bool { return len(names(s)) == 2 })
}

// TestAnEtcdThatWasEmptiedIsNoEmptyConfiguration has etcd come back without anything, as a disk that was lost.
func TestAnEtcdThatWasEmptiedIsNoEmptyConfiguration(t *testing.T) {
	t.Parallel()
	before, after := etcdtest.New(t), etcdtest.New(t)
	client, connect := severable(t, before)
	good := func(configv1.Object) error { return nil }
	store := configstore.New(client, good, zap.NewNop())
	require.NoError(t, store.Claim(t.Context(), "a"))
	f := follow(t, store)
	last := f.awaitRevision(t, put(t, store, provider("one")))
	connect.set(false)
	connect.to(after)
	connect.set(true)
	_, err := client.Get(t.Context(), "x")
	require.NoError(t, err)
	empty := after.Client(t)
	_, err = empty.Put(t.Context(), "other", "x")
	require.NoError(t, err)
	restored, err := empty.Txn(t.Context()).Then(clientv3.OpPut(configstore.RootKey, "a"),
		clientv3.OpPut("/modelgate/v1/version", "x")).Commit()
	require.NoError(t, err)
	require.Equal(t, last.Revision, restored.Header.Revision, "not even the revision tells the two apart")
	next := <-f.states
	require.Empty(t, names(next), "the next that is delivered is of the etcd that has been claimed")
}
