package proc

import (
	"os"
	"path/filepath"
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

func TestMutualTLSIsGivenWholeOrNotAtAll(t *testing.T) {
	for name, c := range map[string]struct {
		certificate, key, ca string
		given, wrong         bool
	}{
		"none": {}, "all": {"c", "k", "a", true, false}, "no certificate": {"", "k", "a", false, true},
		"no key": {"c", "", "a", false, true}, "no authorities": {"c", "k", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			given, err := AllOrNone("--xds-", c.certificate, c.key, c.ca)
			require.Equal(t, c.given, given)
			require.Equal(t, c.wrong, err != nil)
		})
	}
}
