package sdk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// testREADME runs the README's snippets as they stand, beside the data folder of a running gateway.
func testREADME(t *testing.T, g *harness.Gateway) {
	root := testenv.Root(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	folder := filepath.Join(root, "test", "sdk")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(g.Dir, filepath.Join(dir, "data")))

	t.Run("Python", func(t *testing.T) {
		cmd := python(t, folder, "")
		cmd.Args = []string{cmd.Path, "-c", snippet(t, string(text), "python")}
		require.Contains(t, printed(t, cmd, dir), "Hello")
	})
	t.Run("JavaScript", func(t *testing.T) {
		cmd := node(t, folder, "")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "hello.mjs"), []byte(snippet(t, string(text), "js")), 0o600))
		require.NoError(t, os.Symlink(filepath.Join(folder, "node", "node_modules"), filepath.Join(dir, "node_modules")))
		cmd.Args = []string{cmd.Path, "hello.mjs"}
		cmd.Env = append(harness.CleanEnv(), "NODE_EXTRA_CA_CERTS=data/ca.crt")
		require.Contains(t, printed(t, cmd, dir), "Hello")
	})
	t.Run("curl", func(t *testing.T) {
		if _, err := exec.LookPath("curl"); err != nil {
			testenv.Missing(t, "curl", "test/sdk/setup.sh")
		}
		_, command, ok := strings.Cut(string(text), "curl --cacert")
		require.True(t, ok)
		command, _, _ = strings.Cut(command, "```")
		require.Contains(t, printed(t, exec.Command("sh", "-c", "curl --cacert"+command), dir), `"content":"Hello"`)
	})
}

// snippet returns the first block of code in a language.
func snippet(t *testing.T, text, language string) string {
	_, rest, ok := strings.Cut(text, "```"+language+"\n")
	require.True(t, ok, language)
	code, _, ok := strings.Cut(rest, "```")
	require.True(t, ok, language)
	return code
}

// printed runs a command in a folder and returns what it printed.
func printed(t *testing.T, cmd *exec.Cmd, dir string) string {
	cmd.Dir = dir
	if cmd.Env == nil {
		cmd.Env = harness.CleanEnv()
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
