package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

func TestAKeyIsOfATenantThatThereIs(t *testing.T) {
	b := newBench(t)
	post := func(path, body string) answer { return b.do(t, "POST", path, body) }
	const key = `{"display_name":"n","organization":"acme","project":"web"}`
	a := post("/admin/v1/keys", key)
	requireError(t, a, 400, "invalid_object", "there is no Organization acme")
	require.Contains(t, a.body, "there is no Project acme/web")
	require.Equal(t, 201, post("/admin/v1/organizations", `{"name":"acme"}`).status)
	a = post("/admin/v1/keys", key)
	requireError(t, a, 400, "invalid_object", "there is no Project acme/web")
	require.NotContains(t, a.body, "Organization acme")
	require.Equal(t, 201, post("/admin/v1/projects", `{"name":"acme/web"}`).status)
	require.Equal(t, 201, post("/admin/v1/keys", key).status)

	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "n", Organization: "new",
		Project: "too"}, adminapi.CreateMissing)
	require.NoError(t, err)
	for _, path := range []string{"organizations/new", "projects/new/too"} {
		require.Equal(t, 200, b.do(t, "GET", "/admin/v1/"+path, "").status, path)
	}
	path := "/admin/v1/keys/" + made.ID
	stored := b.do(t, "GET", path, "").body
	typo := strings.Replace(stored, `"organization":"new"`, `"organization":"nwe"`, 1)
	requireError(t, b.do(t, "PUT", path, typo), 400, "invalid_object", "there is no Organization nwe")
	requireError(t, post("/admin/v1/apply", typo), 400, "invalid_object", "there is no Organization nwe")
	require.Equal(t, 200, post("/admin/v1/apply", `[`+typo+
		`,{"kind":"Project","name":"nwe/too"},{"kind":"Organization","name":"nwe"}]`).status, "they may come with it")

	for _, path := range []string{"organizations/nwe", "projects/nwe/too", "organizations/nwe?dry_run=true"} {
		requireError(t, b.do(t, "DELETE", "/admin/v1/"+path, ""), 409, "in_use", "has keys, such as "+made.ID)
	}
	// A key stays usable whose organization is not there all the same.
	_, err = b.store.Delete(t.Context(), configv1.KindOf((*configv1.Organization)(nil)), "nwe", configstore.AnyRevision)
	require.NoError(t, err)
	require.Equal(t, 200, b.do(t, "PUT", path, strings.Replace(typo, `"display_name":"n"`, `"display_name":"other"`,
		1)).status)
	require.Equal(t, 200, post(path+"/rotate", "").status)

	require.Equal(t, 204, b.do(t, "DELETE", path, "").status)
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/projects/nwe/too", "").status, "it has no key any more")

	limited, err := b.client.CreateToken(t.Context(),
		adminapi.TokenRequest{DisplayName: "n", Scopes: []string{"keys:write"}})
	require.NoError(t, err)
	a = b.do(t, "POST", "/admin/v1/keys?create_missing=true", `{"display_name":"n","organization":"more"}`,
		"Authorization: Bearer "+limited.Token)
	requireError(t, a, 403, "insufficient_permissions", "config:write")
}

func TestAVariableThatIsNotSetIsRefused(t *testing.T) {
	b := newBench(t)
	set := map[string]string{"TEAM": "x"}
	b.config.Variable = func(name string) (string, bool) { v, ok := set[name]; return v, ok }
	put := func(name, variable, more string) answer {
		return b.do(t, "PUT", "/admin/v1/providers/"+name, `{"name":"`+name+`","vendor":"openai","credential":{"env":"`+
			variable+`"}`+more+`}`)
	}
	require.Equal(t, 201, put("a", "TEAM", "").status)
	requireError(t, put("b", "MODELGATE_OPENAI", ""), 400, "invalid_object",
		"has no environment variable MODELGATE_OPENAI")
	require.Equal(t, 201, put("b", "MODELGATE_OPENAI", `,"disabled":true`).status, "it is not used yet")
	set["TEAM"] = " "
	requireError(t, put("c", "TEAM", ""), 400, "invalid_object", "or it is empty")
	require.Equal(t, 200, put("a", "TEAM", `,"models":["m"]`).status, "what is stored stays")
}
