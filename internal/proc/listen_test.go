package proc

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListenReplacesSocketsOnly(t *testing.T) {
	dir, err := os.MkdirTemp("", "mg") // a test's own folder is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "folder", "s")
	first, err := Listen("unix://" + path)
	require.NoError(t, err, "its folder is made")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	second, err := Listen("unix://" + path)
	require.NoError(t, err, "a socket that an earlier process left is replaced")
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())

	file := filepath.Join(dir, "pepper")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	_, err = Listen("unix://" + file)
	require.ErrorContains(t, err, "is not a socket")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
}

func TestListenReplacesASocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "mg")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	address := "unix://" + filepath.Join(dir, "x.sock")
	old, err := Listen(address)
	require.NoError(t, err)
	successor, err := Listen(address)
	require.NoError(t, err)
	require.NoError(t, old.Close())

	connection, err := net.Dial("unix", strings.TrimPrefix(address, "unix://"))
	require.NoError(t, err, "the end of the old one does not remove the socket of its successor")
	require.NoError(t, connection.Close())
	info, err := os.Stat(strings.TrimPrefix(address, "unix://"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, successor.Close())
}
