package etcdtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestServerKeepsItsDataAndAddressAcrossARestart(t *testing.T) {
	server := etcdtest.New(t)
	client := server.Client(t)
	endpoint := server.Endpoint()
	_, err := client.Put(t.Context(), "a", "1")
	require.NoError(t, err)

	server.Stop()
	server.Stop()
	server.Start(t)

	require.Equal(t, endpoint, server.Endpoint())
	got, err := client.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	require.Equal(t, "1", string(got.Kvs[0].Value))
}

func TestEveryTestHasItsOwnServer(t *testing.T) {
	a, b := etcdtest.Start(t), etcdtest.Start(t)
	_, err := a.Put(t.Context(), "a", "1")
	require.NoError(t, err)
	got, err := b.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, got.Kvs)
}
