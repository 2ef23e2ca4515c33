package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestFirstStepsAreShownUntilSomebodyDismissesThem(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.put(t, &configv1.Provider{Name: "echo", Vendor: "echo"})
	require.NotContains(t, text(w.get("/").body), "First steps", "it is not known what was done")
	b.ledger.health = []adminapi.ProviderHealth{}
	p := w.get("/")
	require.Contains(t, text(p.body), "First steps")
	require.Contains(t, p.body, `href="/new/provider"`)
	b.put(t, &configv1.Provider{Name: "mine", Vendor: "openai"})
	b.ledger.health = []adminapi.ProviderHealth{{Provider: "mine", State: adminapi.ProviderUntried}}
	require.Contains(t, w.get("/").body, `<a href="/providers/mine">Open the provider</a>`)
	b.ledger.health[0].State = adminapi.ProviderOK
	p = w.get("/")
	require.NotContains(t, p.body, `<a href="/providers/mine">Open the provider</a>`)
	require.NotContains(t, p.body, "Open the playground</a></li>", "a request is done too")

	made := w.post("/accounts", "name", "eve", "role", "VIEWER", "password", goodPassword)
	require.Equal(t, 303, made.status, text(made.body))
	viewer := b.browser(t)
	require.Equal(t, 303, viewer.signIn("eve", goodPassword).status)
	seen := viewer.get("/")
	require.Contains(t, text(seen.body), "First steps")
	require.NotContains(t, seen.body, "/first-steps")
	require.NotContains(t, seen.body, `href="/new/`)
	require.Equal(t, 403, viewer.post("/first-steps").status)

	w.get("/")
	require.Equal(t, 303, w.post("/first-steps").status)
	require.NotContains(t, text(w.get("/").body), "First steps")
	require.NotContains(t, text(viewer.get("/").body), "First steps", "it is for everybody")
}
