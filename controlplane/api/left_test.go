package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestAnotherTenantOfTheSameNameInheritsNoRights deletes tenants that others still reach into: who had rights in one
// would have them in the next one of its name.
func TestAnotherTenantOfTheSameNameInheritsNoRights(t *testing.T) {
	b, ask := tenanted(t)
	do := func(status int, method, path, body string) answer {
		t.Helper()
		a := b.do(t, method, "/admin/v1/"+path, body)
		require.Equal(t, status, a.status, a.body)
		return a
	}
	for _, tenant := range []string{`"organization":"gone"`, `"organization":"gone","project":"web"`} {
		for path, body := range map[string]string{
			"accounts/left": `{"name":"left","password":"a long password","memberships":[{"role":"ADMIN",` + tenant + `}]}`,
			"identityproviders/left": `{"name":"left","issuer":"https://left.example","client_id":"c",
				"roles":[{"group":"g","role":"VIEWER"},{"group":"g","role":"ADMIN",` + tenant + `}]}`,
			"webhooks/left": `{"name":"left","url":"https://left.example/x","secret":{"value":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},` + tenant + `}`,
		} {
			do(201, "PUT", "organizations/gone", `{"name":"gone"}`)
			do(201, "PUT", "projects/gone/web", `{"name":"gone/web"}`)
			do(201, "PUT", path, body)
			if len(tenant) > len(`"organization":"gone"`) {
				requireError(t, do(409, "DELETE", "projects/gone/web", ""), 409, "in_use", "left still reaches into Project gone/web")
			}
			requireError(t, do(409, "DELETE", "organizations/gone", ""), 409, "in_use", "left still reaches into Organization gone")
			do(204, "DELETE", path, "")
			do(204, "DELETE", "projects/gone/web", "")
			do(204, "DELETE", "organizations/gone", "")
		}
	}
	do(201, "PUT", "organizations/gone", `{"name":"gone"}`)
	made := b.makeToken(t, `{"display_name":"x","scopes":["keys:read"],"organization":"gone"}`)
	requireError(t, do(409, "DELETE", "organizations/gone", ""), 409, "in_use", made.ID)
	do(204, "DELETE", "admintokens/"+made.ID, "")
	do(204, "DELETE", "organizations/gone", "")

	p := member("own", "", configv1.Role_ADMIN)
	require.Equal(t, 201, ask(p, "PUT", "/admin/v1/accounts/helper", inOwn("helper", own12)).status)
	requireError(t, ask(p, "DELETE", "/admin/v1/projects/own/a", ""), 409, "in_use", "Account helper")
	require.Equal(t, 204, ask(p, "DELETE", "/admin/v1/accounts/helper", "").status)
	require.Equal(t, 204, ask(p, "DELETE", "/admin/v1/projects/own/a", "").status)
}
