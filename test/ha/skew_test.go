package ha

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// before is the revision that stands for the version before this one.
const before = "6832f93bf6116ec7f9c4114c4f1cadb5e5c1171d"

// reconnections is how often everything connects to a mixture of control planes anew.
const reconnections = 4

// oldBinary builds the version before, once. Where git does not know it, as in a clone without history, the test is
// skipped.
func oldBinary(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil || exec.Command("git", "cat-file", "-e", before+"^{commit}").Run() != nil {
		testenv.Missing(t, "revision "+before+", the version before this one (git fetch --unshallow)", "")
	}
	root := strings.TrimSpace(string(out))
	binary := filepath.Join(root, ".cache", "ha", "modelgate-"+before[:12])
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(binary), 0o755))
	dir := t.TempDir()
	archive := filepath.Join(dir, "source.tar")
	run := func(in, name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = in
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
	run(root, "git", "archive", "--output", archive, before)
	run(dir, "tar", "--extract", "--file", archive)
	run(dir, "go", "build", "-o", binary+".new", "./cmd/modelgate")
	require.NoError(t, os.Rename(binary+".new", binary))
	return binary
}

// TestTwoVersionsWorkTogether goes from the version before to this one and back, in the order of docs/upgrade.md, and
// stops at every mixture on the way. The second data plane is of the version before all the time. In a mixture of
// control planes, Envoy and the ext_proc service beside it connect to either of them, in turn.
func TestTwoVersionsWorkTogether(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	older, newer := oldBinary(t), harness.Binary(t)
	c := newClusterOf(t, older)
	l := startLoad(c)
	l.pass(t)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"everything is of the version before", func() {}},
		{"one control plane is new", func() { c.planes[0].replace(newer) }},
		{"both control planes are new", func() { c.planes[1].replace(newer) }},
		{"one job service is new", func() { c.jobs[0].replace(newer) }},
		{"one data plane is new", func() { c.data[0].replace(newer) }},
		{"one control plane is rolled back", func() { c.planes[0].replace(older) }},
		{"both control planes are rolled back", func() { c.planes[1].replace(older) }},
		{"the job service is rolled back", func() { c.jobs[0].replace(older) }},
		{"the data plane is rolled back", func() { c.data[0].replace(older) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			m := l.mark()
			step.do()
			if c.planes[0].binary != c.planes[1].binary {
				for range reconnections {
					c.xds.close()
					c.xds.open(t)
					l.pass(t)
				}
			}
			for i := range c.planes { // what either control plane makes, both data planes take
				_, key := c.createKey(t, i, "skew")
				c.accepts(t, key, http.StatusOK)
				model := fmt.Sprintf("kind: Model\nname: model-%d\ntargets: [{provider: vendor, model: probe}]\n", i)
				harness.Must(t, model, append([]string{"config", "apply", "-f", "-"}, c.server(i)...)...)
			}
			l.since(t, m)
			for i, p := range c.planes {
				require.Zero(t, c.refusals(t, i), "control plane %d: %s", i, p.running.Output())
			}
		})
	}
	t.Run("the ledger is exact", func(t *testing.T) {
		l.halt()
		l.requireExact(t, 0)
	})
}

// refusals is how often clients have refused what a control plane sent them.
func (c *cluster) refusals(t *testing.T, plane int) (total int) {
	t.Helper()
	response, err := http.Get(c.server(plane)[1] + "/metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, string(text), "modelgate_xds_revision")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "modelgate_xds_nacks_total") {
			var n int
			_, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
			require.NoError(t, err)
			total += n
		}
	}
	return total
}
