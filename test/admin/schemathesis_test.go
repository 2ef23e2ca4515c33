// Package admin drives the admin API of the whole gateway from its own description, with schemathesis.
//
// What schemathesis sends is seldom accepted, for an object is checked against all that is stored. It
// finds what is refused wrongly, with the wrong status or in the wrong shape; that what is right is accepted is tested
// elsewhere.
package admin

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestAdminAPIIsAsItsDescriptionSays(t *testing.T) {
	program, err := filepath.Abs("../../.cache/admin-python/bin/schemathesis")
	require.NoError(t, err)
	if _, err := exec.LookPath(program); err != nil {
		testenv.Missing(t, "schemathesis", "test/admin/setup.sh")
	}
	g := harness.Run(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "run", g.Admin+"/admin/v1/openapi.json",
		"--header", "Authorization: Bearer "+g.File(t, "admin-token"), "--tls-verify", filepath.Join(g.Dir, "ca.crt"),
		// Whether an object is accepted depends on what is stored. Wrong tokens have the address refused, and are tested
		// elsewhere.
		"--exclude-checks", "positive_data_acceptance,ignored_auth",
		"--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "10", "--seed", "1",
		"--generation-database", "none", "--continue-on-failure", "--warnings", "off", "--no-color")
	cmd.Env = harness.CleanEnv()
	cmd.Dir = t.TempDir() // it writes files where it is
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Tested: ", "%s", out)
}
