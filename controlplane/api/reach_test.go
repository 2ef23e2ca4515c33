package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// TestNothingReachesIntoATenantThatIsNot: whoever made it later would have let others in.
func TestNothingReachesIntoATenantThatIsNot(t *testing.T) {
	b := newBench(t)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/organizations/acme", `{"name":"acme"}`).status)
	for path, c := range map[string]struct{ body, field string }{
		"accounts/ann": {`{"name":"ann","memberships":[{"organization":"ghost","role":"ADMIN"}]}`, "memberships[0].organization"},
		"accounts/bob": {`{"name":"bob","memberships":[{"organization":"acme","role":"VIEWER"},{"organization":"acme","project":"ghost","role":"ADMIN"}]}`, "memberships[1].project"},
		"webhooks/w":   {`{"name":"w","organization":"ghost","url":"https://hooks.example.com/","events":["batch.completed"],"secret":{"value":"whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}}`, "organization"},
	} {
		a := b.do(t, "PUT", "/admin/v1/"+path, c.body)
		require.Equal(t, 400, a.status, a.body)
		require.Equal(t, c.field, gjson.Get(a.body, "error.param").Str, a.body)
	}
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/ann",
		`{"name":"ann","memberships":[{"organization":"acme","role":"ADMIN"}]}`).status)
}

// TestADirectoryDoesNotLetInWhomOperatorsHaveDisabled: not by deleting and making, nor by renaming and making.
func TestADirectoryDoesNotLetInWhomOperatorsHaveDisabled(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	id := c.make(t, "Users", `{"userName":"eve"}`)
	body := b.do(t, "GET", "/admin/v1/accounts/eve", "").body
	disabled := b.do(t, "PUT", "/admin/v1/accounts/eve", `{"name":"eve","disabled":true,"identity":`+
		gjson.Get(body, "identity").Raw+`,"provisioning":`+gjson.Get(body, "provisioning").Raw+`}`)
	require.Equal(t, 200, disabled.status, disabled.body)
	a := c.do(t, "PUT", "Users/"+id, `{"userName":"mallory"}`)
	require.Equal(t, 400, a.status, a.body)
	require.Equal(t, "mutability", gjson.Get(a.body, "scimType").Str, a.body)
	for range 2 {
		require.Equal(t, 204, c.do(t, "DELETE", "Users/"+id, "").status)
		require.Equal(t, 404, c.do(t, "GET", "Users/"+id, "").status)
		left := b.account(t, "eve")
		require.True(t, left.GetDisabled())
		require.Empty(t, left.GetMemberships())
		require.Zero(t, left.GetRole())
		require.Nil(t, left.GetProvisioning())
		id = c.make(t, "Users", `{"userName":"eve","active":true}`)
		require.True(t, b.account(t, "eve").GetDisabled(), "it is provisioned, and kept out")
	}
}
