// Package browser uses the dashboard as people do: in Chromium, over the whole gateway.
//
// The cases are not here but in node/cases.mjs, which prints "ok NAME" or "not ok NAME: reason" for each.
// setup.sh installs what they need, and without it they skip. Pictures of every page are kept where $SCREENSHOTS names
// a folder: look at them when you change a page.
package browser

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/identity/identitytest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// longest is how long the program may take. Each step in it has a limit of its own, much shorter.
const longest = 15 * time.Minute

func TestMain(m *testing.M) { harness.Main(m) }

func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		testenv.Missing(t, "Chromium", "test/browser/setup.sh")
	}
	return path
}

func TestDashboard(t *testing.T) {
	folder, browser, node := installed(t)
	g := harness.Run(t, t.TempDir())
	line := g.WaitFor(t, "/sign-in/first?token=")
	admin, err := url.Parse(g.Admin)
	require.NoError(t, err)
	require.Contains(t, line, admin.Host)
	g.Apply(t, &configv1.Organization{Name: "acme", DisplayName: "Acme"})
	corp := identitytest.Start(t, g.Admin+"/sign-in/with/corp/back")
	corp.Add("grace", "staff")
	g.Apply(t, &configv1.IdentityProvider{Name: "corp", DisplayName: "Corp", Issuer: corp.URL,
		ClientId:     identitytest.ClientID,
		ClientSecret: &configv1.Credential{Source: &configv1.Credential_Value{Value: identitytest.ClientSecret}},
		Roles:        []*configv1.GroupRole{{Group: "staff", Role: configv1.Role_VIEWER}}})

	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join(folder, "cases.mjs"))
	cmd.Env = append(environment(g, line, browser), "SCREENSHOTS="+os.Getenv("SCREENSHOTS"),
		"MODELGATE_BINARY="+harness.Binary(t))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 10*time.Second
	err = cmd.Run()
	if stderr.Len() > 0 {
		t.Logf("it printed:\n%s", &stderr)
	}
	require.NoError(t, ctx.Err(), "the program hangs after:\n%s", &stdout)
	passed := 0
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSpace(line)
		name, reason, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "not "), "ok "), ": ")
		if strings.HasPrefix(line, "ok ") {
			passed++
		}
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(line, "ok ") {
				t.Error(reason)
			}
		})
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, passed, 14, "cases that did not run")
}
