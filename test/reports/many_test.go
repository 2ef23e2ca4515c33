package reports

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// TestManyObjectsInOneApply is report 13: 20,000 objects in one apply, all of which work when it returns, and all of
// which are in the audit log. What waits for them is the command itself.
func TestManyObjectsInOneApply(t *testing.T) {
	const n = 20_000
	g := harness.Run(t, t.TempDir())
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, "---\nkind: Model\nname: model-%05d\ntargets: [{provider: echo, model: echo}]\n", i)
	}
	path := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
	require.Equal(t, n, strings.Count(harness.Must(t, "", "config", "apply", path, "--data", g.Dir), " created\n"))
	for _, model := range []string{"model-00000", fmt.Sprintf("model-%05d", n-1)} {
		body := `{"model":"` + model + `","messages":[{"role":"user","content":"hello"}]}`
		a := g.AsCases().Do(t, http.MethodPost, "/v1/chat/completions", body)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	}
	harness.Must(t, "kind: Model\nname: one-more\ntargets: [{provider: echo, model: echo}]\n", "config", "apply",
		"--data", g.Dir, "-f", "-")
	require.Equal(t, n+1, strings.Count(harness.Must(t, "", "config", "list", "models", "--data", g.Dir), "\n")-1)
}
