package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADataFolderIsForOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, first.Write(FileURL, "https://127.0.0.1:1"))

	_, err = Open(path)
	require.ErrorContains(t, err, "another modelgate runs in "+path)
	require.FileExists(t, first.File(FileURL), "one that is refused changes nothing")

	require.NoError(t, first.Close())
	require.NoFileExists(t, first.File(FileURL))
	second, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

func TestADataFolderForgetsWhereAKilledGatewayWas(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, FileURL), []byte("https://127.0.0.1:1\n"), 0o644))
	d, err := Open(path)
	require.NoError(t, err)
	require.NoFileExists(t, d.File(FileURL))
	require.NoError(t, d.Close())
}
