package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

func TestADataFolderIsForOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first, err := OpenDataDir(path)
	require.NoError(t, err)
	require.NoError(t, first.Write(admincli.FileURL, "https://127.0.0.1:1"))

	_, err = OpenDataDir(path)
	require.ErrorContains(t, err, "another modelgate runs in "+path)
	require.FileExists(t, first.File(admincli.FileURL), "one that is refused changes nothing")

	require.NoError(t, first.Close())
	require.NoFileExists(t, first.File(admincli.FileURL))
	second, err := OpenDataDir(path)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}

func TestADataFolderForgetsWhereAKilledGatewayWas(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, admincli.FileURL), []byte("https://127.0.0.1:1\n"), 0o644))
	d, err := OpenDataDir(path)
	require.NoError(t, err)
	require.NoFileExists(t, d.File(admincli.FileURL))
	require.NoError(t, d.Close())
}
