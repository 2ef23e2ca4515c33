package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestATenantDoesNotSayWhenAnObjectWasMade, of every kind that it may make: the time tells an account from an earlier
// one of its name. Operators restore objects with it.
func TestATenantDoesNotSayWhenAnObjectWasMade(t *testing.T) {
	b, ask := tenanted(t)
	const given = `"created_at":"2001-01-01T00:00:00Z"`
	admin := member("own", "", configv1.Role_ADMIN)
	for _, c := range []struct{ path, name, more string }{
		{"/admin/v1/projects", "own/new", ``},
		{"/admin/v1/accounts", "new", `"password":"a long password","memberships":[{"organization":"own","role":"VIEWER"}],`},
	} {
		body := `{"name":"` + c.name + `",` + c.more + given + `}`
		at := c.path + "/" + c.name
		for method, where := range map[string]string{"POST": c.path, "PUT": at} {
			made := ask(admin, method, where, body)
			require.Equal(t, 201, made.status, made.body)
			made = b.do(t, "GET", at, "")
			require.NotEmpty(t, gjson.Get(made.body, "created_at").Str, made.body)
			require.NotContains(t, made.body, "2001-01-01", "%s %s", method, at)
			require.Equal(t, 204, ask(admin, "DELETE", at, "").status)
		}
		require.Equal(t, 201, b.do(t, "PUT", at, body).status)
		require.Contains(t, b.do(t, "GET", at, "").body, "2001-01-01")
	}
}
