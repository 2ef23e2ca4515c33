package kinds_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDocumentIsFresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "item-types.md")
	out, err := exec.Command("go", "run", "gendocs.go", "-o", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	got, err := os.ReadFile("../../../docs/item-types.md")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go generate ./internal/inbound/kinds")
}
