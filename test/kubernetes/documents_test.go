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

// documented runs the commands of the documents as they are written, where their reader would: beside charts, with a
// file that says where images are. Those of operating and upgrading are run before install.md uninstalls.
func documented(t *testing.T, r *release) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "charts"), 0o755))
	require.NoError(t, os.Symlink(r.chart, filepath.Join(folder, "charts", "modelgate")))
	images, err := os.ReadFile(os.Getenv("VALUES"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "images.yaml"), images, 0o644))
	root := filepath.Join(filepath.Dir(os.Getenv("VALUES")), "..", "..")
	install, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	require.NoError(t, err)
	installed, uninstalled, found := bytes.Cut(install, []byte("\n## Uninstall\n"))
	require.True(t, found)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "install.md"), installed, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "uninstall.md"), uninstalled, 0o644))
	ctx, end := context.WithTimeout(t.Context(), 8*time.Minute)
	defer end()
	c := exec.CommandContext(ctx, filepath.Join(root, "test", "kubernetes", "docs.sh"),
		"install.md", filepath.Join(root, "docs", "operate.md"), filepath.Join(root, "docs", "upgrade.md"), "uninstall.md")
	c.Dir = folder
	c.WaitDelay = 5 * time.Second
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
