package configstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestOwnersAreFollowed(t *testing.T) {
	etcd := etcdtest.Start(t)
	store := newStore(t, etcd)
	index := configstore.NewOwnerIndex(store)
	first := index.Changed()
	go func() { _ = index.Run(t.Context()) }()
	<-first

	ref := configstore.Ref{Kind: "Model", Name: "a/b"}
	_, revision, err := store.OwnersOf(t.Context())
	require.NoError(t, err)
	owner := configstore.Owner{By: "kubernetes:p/x", ID: "1"}
	also, err := configstore.SetOwners(map[configstore.Ref]configstore.Owner{ref: owner}, revision)
	require.NoError(t, err)
	changed := index.Changed()
	_, err = store.Beside(t.Context(), also)
	require.NoError(t, err)
	<-changed
	require.Equal(t, "kubernetes:p/x", index.Of(configv1.KindOf((*configv1.Model)(nil)), "a/b"))
	_, err = store.Beside(t.Context(), also)
	require.ErrorIs(t, err, configstore.ErrConflict, "somebody has written since")

	_, revision, err = store.OwnerOf(t.Context(), ref)
	require.NoError(t, err)
	also, err = configstore.SetOwners(map[configstore.Ref]configstore.Owner{ref: {}}, revision)
	require.NoError(t, err)
	changed = index.Changed()
	_, err = store.Beside(t.Context(), also)
	require.NoError(t, err)
	<-changed
	require.Empty(t, index.All())
}

// A transaction of etcd has at most 128 operations on one level.
func TestManyOwnersAreWrittenAtOnce(t *testing.T) {
	store := newStore(t, etcdtest.Start(t))
	owners := map[configstore.Ref]configstore.Owner{}
	for i := range 3000 {
		owners[configstore.Ref{Kind: "Model", Name: string(rune('a'+i%26)) + string(rune('\u4e00'+i))}] =
			configstore.Owner{By: "kubernetes:p/x"}
	}
	also, err := configstore.SetOwners(owners, 1<<40)
	require.NoError(t, err)
	_, err = store.Beside(t.Context(), also)
	require.NoError(t, err)
	stored, _, err := store.OwnersOf(t.Context())
	require.NoError(t, err)
	require.Len(t, stored, 3000)
}
