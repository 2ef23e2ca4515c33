package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/atomicfile"
)

func TestWriteReplacesContentAndMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(path, []byte("old and longer"), 0o644))

	require.NoError(t, atomicfile.Write(path, []byte("new"), 0o600))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

func TestWriteLeavesNothingBehindWhenItFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "not empty"), 0o755))

	require.Error(t, atomicfile.Write(path, []byte("x"), 0o600))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)

	require.ErrorIs(t, atomicfile.Write(filepath.Join(dir, "missing", "x"), nil, 0o600), fs.ErrNotExist)
}
