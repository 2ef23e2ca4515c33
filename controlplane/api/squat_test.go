package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
)

// TestAnAccountThatATenantWidensGivesWay has a project's admin make an account without a password, and the
// organization's admin give it more: a person of the company still gets in under its name.
func TestAnAccountThatATenantWidensGivesWay(t *testing.T) {
	b, ask := tenanted(t)
	person := &configv1.Identity{Issuer: issuer, Subject: "1"}
	ofA, ofAll := member("own", "a", configv1.Role_ADMIN), member("own", "", configv1.Role_ADMIN)
	require.Equal(t, 201, ask(ofA, "PUT", "/admin/v1/accounts/chief", inOwn("chief", "")).status)
	for _, wider := range []string{`{"organization":"own","role":"VIEWER"}`, `{"organization":"own","project":"b","role":"ADMIN"}`} {
		a := ask(ofAll, "PUT", "/admin/v1/accounts/chief", `{"name":"chief","memberships":[`+wider+`]}`)
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "own", b.account(t, "chief").GetTenant())
		require.Equal(t, accounts.GivesWay, accounts.Find(b.account(t, "chief"), person))
	}
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/operators", inOwn("operators", "")).status)
	require.Equal(t, 200, ask(ofAll, "PUT", "/admin/v1/accounts/operators",
		`{"name":"operators","memberships":[{"organization":"own","role":"VIEWER"}]}`).status)
	require.Equal(t, accounts.Others, accounts.Find(b.account(t, "operators"), person),
		"it is not the tenant's to give away")
}

// TestARenameOntoADisabledAccount has a directory rename somebody to an account that operators have disabled.
func TestARenameOntoADisabledAccount(t *testing.T) {
	b, ask := tenanted(t)
	c := b.provisioned(t, "corp", issuer)
	put := func(name, more string) {
		t.Helper()
		a := b.do(t, "PUT", "/admin/v1/accounts/"+name, `{"name":"`+name+`","disabled":true,`+more+`}`)
		require.Equal(t, 201, a.status, a.body)
	}
	put("signed-in", `"role":"VIEWER","identity":{"issuer":"`+issuer+`","subject":"7"}`)
	put("prepared", `"role":"VIEWER","identity":{"issuer":"`+issuer+`"}`)
	require.Equal(t, 201, ask(member("own", "", configv1.Role_ADMIN), "PUT", "/admin/v1/accounts/tenants",
		inOwn("tenants", own12+`"disabled":true,`)).status)
	for name, status := range map[string]int{"signed-in": 409, "prepared": 409, "tenants": 200, "free": 200} {
		id := c.make(t, "Users", `{"userName":"before-`+name+`","active":true}`)
		a := c.do(t, "PATCH", "Users/"+id, patch(`{"op":"replace","path":"userName","value":"`+name+`"}`))
		require.Equal(t, status, a.status, a.body)
		require.Equal(t, status == 409, b.account(t, name).GetDisabled(), name)
	}
}

// TestATenantDoesNotDeleteWhatOperatorsHaveDisabled tries to have somebody sign in again whom an operator keeps out.
func TestATenantDoesNotDeleteWhatOperatorsHaveDisabled(t *testing.T) {
	b, ask := tenanted(t)
	p := member("own", "", configv1.Role_ADMIN)
	for name, c := range map[string]struct {
		more   string
		status int
	}{
		"bound":    {`"disabled":true,"identity":{"issuer":"` + issuer + `","subject":"7"},`, 403},
		"prepared": {`"disabled":true,"identity":{"issuer":"` + issuer + `"},`, 403},
		"local":    {`"disabled":true,` + own12, 204},
		"enabled":  {`"identity":{"issuer":"` + issuer + `","subject":"8"},`, 204},
	} {
		require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/"+name, inOwn(name, c.more)).status)
		a := ask(p, "DELETE", "/admin/v1/accounts/"+name, "")
		require.Equal(t, c.status, a.status, name+a.body)
	}
}
