package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstallReplacesAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "next")
	require.NoError(t, os.WriteFile(path, []byte("next"), 0o600))
	into := filepath.Join(dir, "bin")
	require.NoError(t, os.Mkdir(into, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(into, "modelgate"), []byte("last"), 0o555))
	running, err := os.Open(filepath.Join(into, "modelgate"))
	require.NoError(t, err)
	defer running.Close()

	require.NoError(t, install(path, into))
	text, err := os.ReadFile(filepath.Join(into, "modelgate"))
	require.NoError(t, err)
	require.Equal(t, "next", string(text))
	text = make([]byte, 8)
	n, err := running.Read(text)
	require.NoError(t, err)
	require.Equal(t, "last", string(text[:n]), "what runs keeps the file that it was started from")
}
