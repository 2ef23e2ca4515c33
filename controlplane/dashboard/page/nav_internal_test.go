package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

func someLines() []Line {
	return []Line{
		{Group: GroupModels, Path: "/models", Name: "Models", Scope: authz.ConfigRead},
		{Group: GroupModels, Path: "/providers", Name: "Providers", Scope: authz.ConfigRead},
		{Group: GroupAccess, Path: "/keys", Name: "Keys", Scope: authz.KeysRead, Tenants: true},
		{Group: GroupAccess, Path: "/rate-limits", Name: "Rate limits", Scope: authz.ConfigRead},
		{Group: GroupRules, Path: "/objects/Guardrail", Name: "Guardrails", Scope: authz.ConfigRead},
		{Group: GroupSettings, Path: "/objects", Name: "All objects", Scope: authz.ConfigRead},
		{Group: GroupSettings, Path: "/tokens/used", Name: "Used tokens", Scope: authz.AdminsRead},
		{Group: GroupSettings, Path: "/tokens", Name: "Admin tokens", Scope: authz.AdminsRead},
	}
}

func TestThePageThatIsShownIsFoundInTheNavigation(t *testing.T) {
	for path, line := range map[string]string{
		"/":                           "",
		"/keys":                       "/keys",
		"/keys/key_1":                 "/keys",
		"/keys/key_1/revoke":          "/keys",
		"/new/key":                    "/keys",
		"/new/rate-limit":             "/rate-limits",
		"/new/token":                  "/tokens",
		"/tokens/used":                "/tokens/used",
		"/tokens/other":               "/tokens",
		"/delete/Model/team/fast":     "/models",
		"/history/Model/team/fast":    "/models",
		"/objects":                    "/objects",
		"/objects/Guardrail":          "/objects/Guardrail",
		"/objects/Guardrail/pii":      "/objects/Guardrail",
		"/new/object/guardrails":      "/objects/Guardrail",
		"/form/Guardrail":             "/objects/Guardrail",
		"/form/AlertRule/spent":       "/objects",
		"/rollback/AlertRule/spent":   "/objects",
		"/objects/Model/team/fast":    "/models",
		"/objects/of-no-kind/at-all":  "/objects",
		"/sign-in/terminal":           "",
		"/find":                       "",
		"/new":                        "",
		"/new/object/of-no-kind":      "/objects",
		"/delete/Provider/of/objects": "/providers",
	} {
		require.Equal(t, line, lineOf(someLines(), path), path)
	}
}

func TestTheNavigationHasTheGroupsThatSomebodyMaySee(t *testing.T) {
	owner := authz.Principal{Scopes: authz.ScopesOf(configv1.Role_OWNER)}
	groups := navigation(someLines(), owner, "/providers/openai")
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	require.Equal(t, []string{GroupModels, GroupAccess, GroupRules, GroupSettings}, names, "no group is empty")

	models := groups[0]
	require.Equal(t, "/providers", models.Current)
	require.Equal(t, "true", models.Aria())
	require.Equal(t, someLines()[1:2], models.Below(), "the group's own line is its first page")
	access := groups[1]
	require.Equal(t, "", access.Current+access.Aria())
	require.Equal(t, "Keys, Rate limits", access.Inside())
	require.Equal(t, "/keys", access.First().Path)
	require.Equal(t, "page", navigation(someLines(), owner, "/models")[0].Aria())
	require.Equal(t, "true", navigation(someLines(), owner, "/keys")[1].Aria(), "the page has a line of its own")

	tenant := authz.Principal{Scopes: owner.Scopes, Tenant: authz.Tenant{Organization: "acme"}}
	require.Equal(t, []Group{{Name: GroupAccess, Items: someLines()[2:3], Current: "/keys"}},
		navigation(someLines(), tenant, "/keys"))
	require.Empty(t, navigation(someLines(), authz.Principal{}, "/keys"))
}
