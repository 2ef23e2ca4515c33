package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard"
)

// Every page × role: what the table of scopes says is what happens, and nobody who is not signed in gets anywhere.
func TestEveryPageForEveryRole(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	people := map[configv1.Role]*browser{
		configv1.Role_OWNER:    owner,
		configv1.Role_OPERATOR: b.person(t, owner, "otto", "OPERATOR"),
		configv1.Role_VIEWER:   b.person(t, owner, "vera", "VIEWER"),
		configv1.Role_AUDITOR:  b.person(t, owner, "audrey", "AUDITOR"),
		configv1.Role_ADMIN:    b.person(t, owner, "adam", "ADMIN"),
	}
	fill(t, b, owner)
	stranger := b.browser(t)
	stranger.get("/sign-in")
	concrete := strings.NewReplacer("{$}", "", "{name...}", "none", "{name}", "none", "{what}", "revoke", "{kind}",
		"Provider", "{id}", "ftjob_1")
	for _, route := range dashboard.Routes() {
		method, pattern, _ := strings.Cut(route.Pattern, " ")
		path := concrete.Replace(pattern)
		ask := func(w *browser) shown {
			if method == http.MethodGet {
				return w.get(path)
			}
			return w.post(path)
		}
		p := ask(stranger)
		require.Equal(t, 303, p.status, route.Pattern)
		require.True(t, strings.HasPrefix(p.location, "/sign-in"), route.Pattern)
		for role, w := range people {
			if pattern == "/sign-out" || pattern == "/playground/ask/{api}" { // there is no gateway here
				continue
			}
			w.get("/account")
			p := ask(w)
			may := authz.Principal{Scopes: authz.ScopesOf(role)}.May(route.Scope) || route.Scope == ""
			if method == http.MethodPost && role == configv1.Role_VIEWER && pattern != "/account" &&
				pattern != "/tenant" {
				require.NotEqual(t, 303, p.status, "%s as viewer", route.Pattern)
				require.GreaterOrEqual(t, p.status, 400, "%s as viewer", route.Pattern)
			}
			if may {
				if route.Scope != "" {
					require.NotEqual(t, 403, p.status, "%s as %s: %s", route.Pattern, role, text(p.body))
				}
				if pattern != "/playground/cost/{id}" { // there is no ledger here
					require.Less(t, p.status, 500, "%s as %s", route.Pattern, role)
				}
			} else {
				require.Equal(t, 403, p.status, "%s as %s", route.Pattern, role)
			}
		}
	}
}

// Every page × role within a tenant: nobody sees anything of another tenant, on no page, and no page fails.
func TestEveryPageForEveryRoleOfATenant(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	fill(t, b, owner)
	for _, name := range []string{"mine", "secretcorp"} {
		require.Equal(t, 303, owner.post("/organizations", "name", name, "display_name", name).status)
		require.Equal(t, 303, owner.post("/projects", "organization", name, "name", "web", "display_name", name).status)
		require.Equal(t, 200, owner.post("/keys", "display_name", name+"-key", "organization", name, "project",
			"web").status)
	}
	for _, role := range configv1.TenantRoles() {
		name := "t" + strings.ToLower(role.String())
		owner.get("/new/account")
		p := owner.post("/accounts", "name", name, "role", "ROLE_UNSPECIFIED", "password", goodPassword, "memberships",
			"mine "+role.String()+"\nmine/web VIEWER")
		require.Equal(t, 303, p.status, text(p.body))
		w := b.browser(t)
		require.Equal(t, 303, w.signIn(name, goodPassword).status)
		nav := w.get("/find").body // all pages of the navigation
		for path, shown := range map[string]bool{"/keys": true, "/projects": true, "/usage": true, "/findings": true,
			"/accounts": role == configv1.Role_ADMIN, "/providers": false, "/models": false, "/rate-limits": false,
			"/policies": false, "/audit": role == configv1.Role_ADMIN, "/objects": false, "/data-plane": false} {
			require.Equal(t, shown, strings.Contains(nav, `<a href="`+path+`"`), "%s %s", role, path)
		}
		for _, path := range []string{"/", "/keys", "/projects", "/organizations", "/usage", "/requests", "/findings",
			"/batches", "/projects/mine/web", "/organizations/mine"} {
			p := w.get(path)
			require.Equal(t, 200, p.status, "%s %s: %s", role, path, text(p.body))
			require.NotContains(t, p.body, "secretcorp", "%s %s", role, path)
			require.NotContains(t, p.body, "acme", "%s %s", role, path)
		}
		require.Contains(t, w.get("/keys").body, "mine-key")
		require.Equal(t, 404, w.get("/projects/secretcorp/web").status)
		require.Equal(t, 404, w.get("/organizations/secretcorp").status)
		for _, path := range []string{"/providers", "/models", "/rate-limits", "/policies", "/objects/Provider"} {
			require.Equal(t, 403, w.get(path).status, "%s %s", role, path)
		}
		made := w.post("/keys", "display_name", "my own", "organization", "mine", "project", "web")
		require.Equal(t, map[bool]int{true: 403, false: 200}[role == configv1.Role_VIEWER], made.status, text(made.body))
		require.Equal(t, 303, w.post("/tenant", "tenant", "mine/web").status)
		require.Contains(t, w.get("/account").body, "viewer of mine/web")
		require.Equal(t, 403, w.post("/keys", "display_name", "no", "organization", "mine", "project", "web").status)
		require.Equal(t, 303, w.post("/tenant", "tenant", "secretcorp").status)
		require.Contains(t, w.get("/account").body, strings.ToLower(role.String())+" of mine<", "an unknown one is none")
	}
}

func TestAViewerIsOfferedNothingToChange(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	key := fill(t, b, owner)
	w := b.person(t, owner, "vera", "VIEWER")
	for _, path := range []string{
		"/", "/keys", key, "/organizations", "/organizations/acme", "/projects", "/projects/acme/search", "/rate-limits",
		"/providers", "/providers/echo", "/policies", "/policies/office",
		"/models", "/models/team/fast", "/objects", "/objects/Provider", "/objects/Provider/echo", "/batches", "/batches/x",
		"/fine-tuning", "/audit", "/data-plane", "/usage", "/requests", "/findings",
	} {
		p := w.get(path)
		require.Equal(t, 200, p.status, path)
		main := p.body[strings.Index(p.body, "<main"):]
		require.NotContains(t, main, `method="post"`, path)
		require.NotContains(t, main, `href="/new/`, path)
		require.NotContains(t, main, `href="/delete/`, path)
	}
	nav := w.get("/").body
	require.NotContains(t, nav, `href="/accounts"`)
	require.NotContains(t, nav, `href="/playground"`)
	// And what an operator sees of the owners' pages.
	otto := b.person(t, owner, "otto", "OPERATOR")
	for _, path := range []string{"/objects/Account", "/objects/AdminToken", "/objects/Account/ada",
		"/delete/Account/ada"} {
		require.Equal(t, 403, otto.get(path).status, path)
	}
	otto.get("/new/object/Provider")
	p := otto.post("/objects/Account", "action", "save", "text", "kind: Account\nname: eve\nrole: OWNER\npassword: "+
		goodPassword+"\n")
	require.Equal(t, 403, p.status)
	p = otto.post("/delete/Account/ada")
	require.Equal(t, 403, p.status)
}
