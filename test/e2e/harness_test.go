// Package e2e runs the whole gateway as its users do: the binary, the real Envoy, real TLS, real etcd. Only the
// vendors are played.
//
// Nothing here may know how the gateway is made. What a test asks, it asks over HTTPS, the
// admin API or the command line.
package e2e

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.MainWith(m, pgtest.Run) }

// A gateway is one that runs, with ways of asking it.
type gateway struct{ *harness.Gateway }

// startRun starts "modelgate run" and waits until it is ready.
func startRun(t *testing.T, dir string, args ...string) *gateway {
	t.Helper()
	return &gateway{harness.Run(t, dir, args...)}
}

// adminGet reads from the admin address with the admin token.
func (g *gateway) adminGet(t *testing.T, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Admin+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.File(t, "admin-token"))
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(b)
}
