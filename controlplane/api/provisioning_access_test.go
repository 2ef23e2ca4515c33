package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestATokenOfSCIMDoesNothingElse(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	for _, e := range endpoints() {
		require.Equal(t, 403, b.do(t, e.method, e.path, e.body, c.authorization).status, e.path)
	}
	for _, authorization := range []string{as(token), as(b.makeToken(t, `{"display_name":"x","scopes":["*"]}`).Token)} {
		a := (&client{b, authorization}).do(t, "GET", "Users", "")
		require.Equal(t, 403, a.status)
		require.Contains(t, a.body, "scope scim")
	}
	a := (&client{b, as("wrong")}).do(t, "GET", "Users", "")
	require.Equal(t, 401, a.status)
	require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")

	admins := b.makeToken(t, `{"display_name":"x","scopes":["admins:write"]}`).Token
	for body, status := range map[string]int{
		`{"display_name":"x","scopes":["scim"]}`:                                          400,
		`{"display_name":"x","scopes":["scim","config:read"],"identity_provider":"corp"}`: 400,
		`{"display_name":"x","scopes":["config:read"],"identity_provider":"corp"}`:        400,
		`{"display_name":"x","scopes":["scim"],"identity_provider":"nobody"}`:             400,
	} {
		require.Equal(t, status, b.do(t, "POST", "/admin/v1/admintokens", body).status, body)
	}
	require.Equal(t, 403, b.do(t, "POST", "/admin/v1/admintokens",
		`{"display_name":"x","scopes":["scim"],"identity_provider":"corp"}`, as(admins)).status,
		"the provider may give roles that the caller does not have")
}

func TestSCIMReachesNoOtherAccounts(t *testing.T) {
	b := newBench(t)
	c, other := b.provisioned(t, "corp", issuer), b.provisioned(t, "other", "https://other.example")
	theirs := other.make(t, "Users", `{"userName":"theirs"}`)
	theirGroup := other.make(t, "Groups", `{"displayName":"ops"}`)
	for name, more := range map[string]string{
		"boss":      `"role":"OWNER","password":"` + goodPassword + `","break_glass":true`,
		"glass":     `"role":"OWNER","break_glass":true,"identity":{"issuer":"` + issuer + `"}`,
		"local":     `"role":"VIEWER","password":"` + goodPassword + `"`,
		"elsewhere": `"role":"VIEWER","identity":{"issuer":"https://other.example"}`,
		"signed-in": `"role":"OPERATOR","identity":{"issuer":"` + issuer + `","subject":"7"}`,
	} {
		require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/"+name, `{"name":"`+name+`",`+more+`}`).status)
	}
	require.Empty(t, c.users(t, ""))
	for _, name := range []string{"boss", "glass", "local", "elsewhere", "theirs"} {
		require.Equal(t, 409, c.do(t, "POST", "Users", `{"userName":"`+name+`"}`).status, name)
	}
	for _, path := range []string{"Users/" + theirs, "Users/boss", "Users/", "Groups/" + theirGroup} {
		for _, method := range []string{"GET", "DELETE"} {
			require.Equal(t, 404, c.do(t, method, path, "").status, path)
		}
		require.Equal(t, 404, c.do(t, "PATCH", path, patch(`{"op":"replace","path":"displayName","value":"x"}`)).status, path)
	}
	require.Equal(t, 400, c.do(t, "POST", "Groups", `{"displayName":"ops","members":[{"value":"`+theirs+`"}]}`).status)
	id := c.make(t, "Users", `{"userName":"mine"}`)
	require.Equal(t, 409, c.do(t, "PUT", "Users/"+id, `{"userName":"boss"}`).status)

	adopted := c.make(t, "Users", `{"userName":"signed-in","externalId":"e"}`)
	a := b.account(t, "signed-in")
	require.Equal(t, " "+adopted, a.GetIdentity().GetSubject()+" "+a.GetProvisioning().GetId(),
		"the directory does not say who has signed in, so the next sign-in does")
	require.Equal(t, configv1.Role_ROLE_UNSPECIFIED, a.GetRole(), "from now on the groups decide")
	require.Equal(t, 409, c.do(t, "POST", "Users", `{"userName":"signed-in"}`).status)
	require.Equal(t, configv1.Role_OWNER, b.account(t, "boss").GetRole())

	require.Equal(t, 400, b.do(t, "PUT", "/admin/v1/identityproviders/corp", `{"name":"corp","issuer":"`+issuer+
		`","client_id":"c","roles":[]}`).status)
	moved := b.do(t, "PUT", "/admin/v1/identityproviders/corp", `{"name":"corp","issuer":"https://new.example","client_id":"c",
		"default_role":"OWNER"}`)
	require.Equal(t, 200, moved.status, moved.body)
	require.Empty(t, c.users(t, ""), "people of another issuer are other people")
	require.True(t, b.account(t, "mine").Barred())
}

func TestRolesOfProvisionedPeopleFollowFromTheirGroups(t *testing.T) {
	b := newBench(t)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/boss",
		`{"name":"boss","role":"OWNER","password":"`+goodPassword+`"}`).status)
	c := b.provisioned(t, "corp", issuer)
	id := c.make(t, "Users", `{"userName":"ann"}`)
	group := c.make(t, "Groups", `{"displayName":"staff","members":[{"value":"`+id+`"}]}`)
	require.Equal(t, configv1.Role_VIEWER, b.account(t, "ann").GetRole())

	shown := b.do(t, "GET", "/admin/v1/accounts/ann", "").body
	owner := strings.Replace(shown, `"VIEWER"`, `"OWNER"`, 1)
	a := b.do(t, "PUT", "/admin/v1/accounts/ann", owner)
	requireError(t, a, 400, "invalid_object", "must be VIEWER, which the groups of the person give")
	admins := as(b.makeToken(t, `{"display_name":"x","scopes":["config:read","config:write","keys:read","keys:write",
		"usage:read","jobs:read","jobs:write","audit:read","status:read","playground","admins:read","admins:write"]}`).Token)
	require.Equal(t, 403, b.do(t, "PUT", "/admin/v1/identitygroups/"+group,
		`{"name":"`+group+`","display_name":"ops","provider":"corp"}`, admins).status)
	mapping := func(role string) string {
		return `{"name":"corp","issuer":"` + issuer + `","client_id":"c","roles":[{"group":"staff","role":"` + role + `"}]}`
	}
	require.Equal(t, 403, b.do(t, "PUT", "/admin/v1/identityproviders/corp", mapping("OWNER"), admins).status)
	dry := b.do(t, "PUT", "/admin/v1/identityproviders/corp?dry_run=true", mapping("OPERATOR"))
	require.Contains(t, dry.body, `"name":"ann"`, "who is concerned is told")
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/identityproviders/corp", mapping("OPERATOR")).status)
	require.Equal(t, configv1.Role_OPERATOR, b.account(t, "ann").GetRole())

	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/identityproviders/corp", mapping("OWNER")).status)
	outside := `{"name":"me","role":"%s","identity":{"issuer":"` + issuer + `"},"provisioning":{"provider":"corp",
		"id":"usr_x","user_name":"me","groups":["` + group + `"]}}`
	for role, status := range map[string]int{"ADMIN": 400, "OWNER": 403} {
		require.Equal(t, status, b.do(t, "PUT", "/admin/v1/accounts/me", fmt.Sprintf(outside, role), admins).status,
			"an admin does not make an owner by a group")
	}
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/identityproviders/corp", mapping("OPERATOR")).status)

	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/accounts/ann",
		strings.Replace(shown, `"role":"VIEWER"`, `"role":"OPERATOR","disabled":true`, 1)).status)
	require.Equal(t, 200, c.do(t, "PATCH", "Users/"+id, patch(`{"op":"replace","path":"active","value":true}`)).status)
	require.True(t, b.account(t, "ann").Barred(), "the provider does not undo what an owner has done")
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/identitygroups/"+group, "").status)
	require.Equal(t, configv1.Role_ROLE_UNSPECIFIED, b.account(t, "ann").GetRole())
	require.Equal(t, 409, b.do(t, "DELETE", "/admin/v1/identityproviders/corp", "").status, "its token needs it")
}

func TestSCIMLeavesTheLastOwner(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/boss", `{"name":"boss","role":"OWNER","password":"`+
		goodPassword+`","identity":{"issuer":"`+issuer+`"}}`).status)
	a := c.do(t, "POST", "Users", `{"userName":"boss"}`)
	require.Equal(t, 409, a.status, a.body)
	require.Contains(t, a.body, "last account with the role OWNER")
	require.Equal(t, configv1.Role_OWNER, b.account(t, "boss").GetRole())

	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/second",
		`{"name":"second","role":"OWNER","password":"`+goodPassword+`"}`).status)
	id := c.make(t, "Users", `{"userName":"boss"}`)
	require.Empty(t, b.account(t, "boss").GetPasswordHash(), "whoever gave it may still know it")
	boss := strings.Replace(b.do(t, "GET", "/admin/v1/accounts/boss", "").body, `"name":"boss"`,
		`"name":"boss","password":"`+goodPassword+`"`, 1)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/accounts/boss", boss).status)
	require.NotEmpty(t, b.account(t, "boss").GetPasswordHash(), "an owner has given it since")
	a = c.do(t, "PATCH", "Users/"+id, patch(`{"op":"replace","path":"userName","value":"chief"}`))
	require.Equal(t, 400, a.status)
	require.Contains(t, a.body, `"scimType":"mutability"`)
}
