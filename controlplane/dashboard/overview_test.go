package dashboard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTheOverviewOfATenantBeforeAnythingHasHappened(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	b.put(t, &configv1.Organization{Name: "acme"})
	for role, says := range map[string]string{"ADMIN": "Create a key", "VIEWER": "once clients call the gateway"} {
		owner.get("/new/account")
		made := owner.post("/accounts", "name", strings.ToLower(role), "role", "ROLE_UNSPECIFIED", "memberships",
			"acme "+role, "password", goodPassword)
		require.Equal(t, 303, made.status, text(made.body))
		w := b.browser(t)
		require.Equal(t, 303, w.signIn(strings.ToLower(role), goodPassword).status)
		p := w.get("/")
		require.Equal(t, 200, p.status, text(p.body))
		require.Contains(t, text(p.body), says)
		require.NotContains(t, p.body, "/new/provider")
	}
}
