package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestEtcdKeepsItsDataAndServesOnItsSocket(t *testing.T) {
	sockets, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(sockets)) })
	dir := filepath.Join(t.TempDir(), "etcd")

	p := newParts(zap.NewNop())
	inside, err := startEtcd(t.Context(), p, dir, sockets, zap.NewNop())
	require.NoError(t, err)
	_, err = inside.Put(t.Context(), "key", "value")
	require.NoError(t, err)
	require.NoError(t, p.stop(t.Context()))

	// The sockets are elsewhere when the data folder's path has become too long.
	elsewhere, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(elsewhere)) })
	_, err = startEtcd(t.Context(), p, dir, elsewhere, zap.NewNop())
	require.NoError(t, err)
	outside, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + filepath.Join(elsewhere, "etcd.sock")}, Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	got, err := outside.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	require.Equal(t, "value", string(got.Kvs[0].Value))
	require.NoError(t, outside.Close())
	require.NoError(t, p.stop(t.Context()))
}
