package harness

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/cases"
)

// A Gateway is "modelgate run" in a folder.
type Gateway struct {
	*Process
	Dir, URL, Admin, Key string
	Client               *http.Client
}

// Run starts "modelgate run" in a folder, with further flags, and waits until it is ready. Where there is no Envoy it
// skips the test.
func Run(t testing.TB, dir string, args ...string) *Gateway {
	t.Helper()
	g := &Gateway{Dir: dir}
	g.Process = Launch(t, nil, append([]string{"run", "--data", dir, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--envoy", testenv.Envoy(t)}, args...)...)
	g.WaitFor(t, "ready")
	g.URL, g.Admin, g.Key = g.File(t, "url"), g.File(t, "admin"), g.File(t, "key")
	g.Client = ClientFor(t, filepath.Join(dir, "ca.crt"))
	return g
}

// File returns what a file of the gateway's folder holds.
func (g *Gateway) File(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.Dir, name))
	require.NoError(t, err)
	return strings.TrimSpace(string(b))
}

// Apply changes the configuration.
func (g *Gateway) Apply(t testing.TB, objects ...configv1.Object) {
	t.Helper()
	Must(t, Documents(t, objects...), "config", "apply", "--data", g.Dir, "-f", "-")
}

// CreateKey creates a key of an organization and project, and returns its id and what a client sends.
func (g *Gateway) CreateKey(t testing.TB, organization, project string) (id, key string) {
	t.Helper()
	args := []string{"key", "create", "--create-missing", "--data", g.Dir, "--name", "test", "-o", "json"}
	if organization != "" {
		args = append(args, "--organization", organization)
	}
	if project != "" {
		args = append(args, "--project", project)
	}
	made := Decode(t, Must(t, "", args...))
	return made["id"].(string), made["key"].(string)
}

// AsCases gives the gateway to the shared cases.
func (g *Gateway) AsCases() *cases.Gateway {
	return &cases.Gateway{URL: g.URL, Key: g.Key, Client: g.Client, Logged: g.Logged}
}

// Logged waits for the line of the access log of a request.
func (g *Gateway) Logged(t testing.TB, requestID string) map[string]any {
	line := g.WaitFor(t, `"request_id":"`+requestID+`"`)
	return Decode(t, line[strings.Index(line, "{"):])
}
