package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAProviderIsTriedBeforeItIsStored(t *testing.T) {
	b := newBench(t)
	tested := 0
	b.plane.test = func(p *configv1.Provider) adminapi.ProviderTest {
		tested++
		require.NotEmpty(t, p.GetCredential().GetSealed())
		return adminapi.ProviderTest{OK: p.GetVendor() == "echo", Message: "It is asked."}
	}
	const path = "/admin/v1/providers/test"
	try := func(body string) answer { return b.do(t, http.MethodPost, path, body) }
	a := try(`{"name":"new","vendor":"echo","credential":{"value":"sk-secret"}}`)
	require.Equal(t, 200, a.status, a.body)
	require.Contains(t, a.body, "It is asked.")
	require.NotContains(t, a.body, "sk-secret")
	require.Equal(t, 404, b.do(t, http.MethodGet, "/admin/v1/providers/new", "").status, "it is not stored")
	require.Equal(t, 1, tested)
	requireError(t, try(`{"name":"new","vendor":"nobody"}`), 400, "invalid_object", "vendor")
	requireError(t, try(`{"name":"new","vendor":"echo","nonsense":1}`), 400, "invalid_object", "nonsense")
	require.Equal(t, 201, b.do(t, http.MethodPost, "/admin/v1/providers", `{"name":"old","vendor":"echo"}`).status)
	requireError(t, try(`{"name":"old","vendor":"echo"}`), 409, "already_exists", "already exists")
	require.Equal(t, 1, tested, "what cannot be created is not tested")

	log := b.do(t, http.MethodGet, "/admin/v1/audit?kind=Provider&action=test", "")
	require.Equal(t, 200, log.status, log.body)
	require.Contains(t, log.body, `"name":"new"`)
	require.NotContains(t, log.body, "sk-secret")
}
