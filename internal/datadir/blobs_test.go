package datadir_test

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/datadir"
)

func TestTheAddressOfTheBlobStoreHasAWholePath(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"data", t.TempDir()} {
		address, err := url.Parse(datadir.Blobs(dir))
		require.NoError(t, err)
		want, err := filepath.Abs(filepath.Join(dir, datadir.DirBlobs))
		require.NoError(t, err)
		require.Equal(t, "file", address.Scheme)
		require.Empty(t, address.Host)
		require.Equal(t, want, filepath.FromSlash(address.Path))
	}
}
