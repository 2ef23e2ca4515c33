package kubernetes_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// documented runs the commands of docs/install.md as they are written, where their reader would: beside charts, with a file that says where
// images are.
func documented(t *testing.T, r *release) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "charts"), 0o755))
	require.NoError(t, os.Symlink(r.chart, filepath.Join(folder, "charts", "modelgate")))
	images, err := os.ReadFile(os.Getenv("VALUES"))
	require.NoError(t, err)
	// One control plane, for `modelgate status` knows the clients of the one that it asks, and calls it a fault where all are with the other.
	images = bytes.Replace(images, []byte("\ncontrolplane:\n"), []byte("\ncontrolplane:\n  replicas: 1\n"), 1)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "images.yaml"), images, 0o644))
	ctx, end := context.WithTimeout(t.Context(), 4*time.Minute)
	defer end()
	root := filepath.Join(filepath.Dir(os.Getenv("VALUES")), "..", "..")
	c := exec.CommandContext(ctx, filepath.Join(root, "test", "kubernetes", "docs.sh"), filepath.Join(root, "docs", "install.md"))
	c.Dir = folder
	c.WaitDelay = 5 * time.Second
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
