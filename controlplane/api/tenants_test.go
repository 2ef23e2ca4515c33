package api_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// member returns the principal of an account with one membership.
func member(organization, project string, role configv1.Role) authz.Principal {
	return authz.PrincipalOfAccount(&configv1.Account{Name: strings.ToLower(role.String()),
		Memberships: []*configv1.Membership{{Organization: organization, Project: project, Role: role}}}, "", "127.0.0.1")
}

// An asker asks as a principal.
type asker func(p authz.Principal, method, path, body string, headers ...string) answer

// tenanted is a gateway with two organizations, whose names and displays begin with own or other.
func tenanted(t *testing.T) (*bench, asker) {
	t.Helper()
	b := newBench(t)
	withLedger(t, b)
	return b, tenantedOn(t, b)
}

func tenantedOn(t *testing.T, b *bench) asker {
	t.Helper()
	for _, o := range []string{"own", "other"} {
		require.Equal(t, 201, b.do(t, "POST", "/admin/v1/organizations", `{"name":"`+o+`"}`).status)
		for _, p := range []string{"a", "b"} {
			require.Equal(t, 201, b.do(t, "POST", "/admin/v1/projects", `{"name":"`+o+`/`+p+`","budgets":[{"unit":"DAY","usd":"1"}]}`).status)
		}
		require.Equal(t, 201, b.do(t, "POST", "/admin/v1/accounts", `{"name":"`+o+`-person","password":"a long password","memberships":[{"organization":"`+o+`","role":"VIEWER"}]}`).status)
	}
	handler := api.New(b.config)
	return func(p authz.Principal, method, path, body string, headers ...string) answer {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(authz.WithPrincipal(r.Context(), p)))
		return answer{w.Code, w.Header(), w.Body.String()}
	}
}

// key makes a key of a project and returns its id.
func (b *bench) key(t *testing.T, organization, project string) string {
	t.Helper()
	a := b.do(t, "POST", "/admin/v1/keys", fmt.Sprintf(`{"display_name":"%s-%s","organization":%[1]q,"project":%[2]q}`,
		organization, project))
	require.Equal(t, 201, a.status, a.body)
	return gjson.Get(a.body, "id").Str
}

func TestTenantsPeopleSeeOnlyTheirOwn(t *testing.T) {
	b, ask := tenanted(t)
	own, sibling, other := b.key(t, "own", "a"), b.key(t, "own", "b"), b.key(t, "other", "a")
	for _, role := range configv1.TenantRoles() {
		ofAll, ofA := member("own", "", role), member("own", "a", role)
		for path, want := range map[string]struct{ ofAll, ofA string }{
			"/admin/v1/keys":          {own + " " + sibling, own},
			"/admin/v1/keys?q=other":  {"", ""},
			"/admin/v1/projects":      {"own/a own/b", "own/a"},
			"/admin/v1/organizations": {"own", ""},
		} {
			require.Equal(t, want.ofAll, names(ask(ofAll, "GET", path, "").body), path)
			require.Equal(t, want.ofA, names(ask(ofA, "GET", path, "").body), path)
		}
		for _, path := range []string{"/admin/v1/keys/" + other, "/admin/v1/projects/other/a",
			"/admin/v1/organizations/other",
			"/admin/v1/keys/key_none", "/admin/v1/projects/own/none", "/admin/v1/keys/" + other + "/consumption"} {
			require.Equal(t, 404, ask(ofAll, "GET", path, "").status, path)
		}
		require.Equal(t, 404, ask(ofA, "GET", "/admin/v1/keys/"+sibling, "").status)
		require.Equal(t, 200, ask(ofA, "GET", "/admin/v1/keys/"+own, "").status)
		for _, kind := range []string{"providers", "models", "ratelimits", "guardrails", "identityproviders",
			"admintokens"} {
			require.Equal(t, 403, ask(ofAll, "GET", "/admin/v1/"+kind, "").status, kind)
		}
		a := ask(ofA, "GET", "/admin/v1/budgets", "")
		require.Equal(t, "project/own/a", gjson.Get(a.body, "items.#.scope|@flatten|0").Str, a.body)
		require.EqualValues(t, 1, gjson.Get(a.body, "items.#").Int(), a.body)
	}
	people := ask(member("own", "", configv1.Role_ADMIN), "GET", "/admin/v1/accounts", "")
	require.Equal(t, "own-person", names(people.body))
}

func names(page string) string {
	var all []string
	for _, n := range gjson.Get(page, "items.#.name").Array() {
		all = append(all, n.Str)
	}
	return strings.Join(all, " ")
}

func byAdmins(status int) map[string]int {
	return map[string]int{"admin": status, "project admin": status}
}

func byMembers(status int) map[string]int {
	return map[string]int{"admin": status, "project admin": status, "member": status, "project member": status}
}

func TestWhatTenantsPeopleMayChange(t *testing.T) {
	b, ask := tenanted(t)
	mine, others := b.key(t, "own", "a"), b.key(t, "other", "a")
	b.people(t, adminOf("own"), memberOf("member", "own"))
	roles := map[string]authz.Principal{
		"admin": member("own", "", configv1.Role_ADMIN), "member": member("own", "", configv1.Role_MEMBER),
		"viewer":        member("own", "", configv1.Role_VIEWER),
		"project admin": member("own", "a", configv1.Role_ADMIN), "project member": member("own", "a", configv1.Role_MEMBER),
	}
	for what, c := range map[string]struct {
		method, path, body string
		want               map[string]int // 403 if it is not given
	}{
		"a key": {"POST", "/admin/v1/keys", `{"display_name":"k","organization":"own","project":"a"}`,
			byMembers(201)},
		"a key of the organization": {"POST", "/admin/v1/keys", `{"display_name":"k","organization":"own"}`,
			map[string]int{"admin": 201, "member": 201}},
		"a key of another":            {"POST", "/admin/v1/keys", `{"display_name":"k","organization":"other","project":"a"}`, nil},
		"a key of nobody":             {"POST", "/admin/v1/keys", `{"display_name":"k"}`, nil},
		"a key with bodies":           {"POST", "/admin/v1/keys", `{"display_name":"k","organization":"own","project":"a","bodies":{"share":1}}`, nil},
		"a key and an organization":   {"POST", "/admin/v1/keys?create_missing=true", `{"display_name":"k","organization":"new"}`, nil},
		"somebody's key":              {"POST", "/admin/v1/keys/" + mine + "/rotate?dry_run=true", `{}`, byAdmins(200)},
		"another's key":               {"POST", "/admin/v1/keys/" + others + "/rotate?dry_run=true", `{}`, byMembers(404)},
		"another's key, gone":         {"DELETE", "/admin/v1/keys/" + others, ``, byMembers(404)},
		"a key moved away":            {"PUT", "/admin/v1/keys/" + mine + "?dry_run=true", `{"name":"` + mine + `","display_name":"k","organization":"other","project":"a"}`, nil},
		"a project":                   {"POST", "/admin/v1/projects?dry_run=true", `{"name":"own/new","limits":[{"domain":"requests","unit":"MINUTE","requests_per_unit":9}]}`, map[string]int{"admin": 200}},
		"another's project":           {"POST", "/admin/v1/projects", `{"name":"other/a"}`, nil},
		"another's new project":       {"POST", "/admin/v1/projects", `{"name":"other/new"}`, nil},
		"its own limits":              {"PUT", "/admin/v1/projects/own/a?dry_run=true", `{"name":"own/a"}`, map[string]int{"admin": 200}},
		"its quotas":                  {"PUT", "/admin/v1/projects/own/a", `{"name":"own/a","quotas":{"files":9}}`, nil},
		"the organization":            {"PUT", "/admin/v1/organizations/own", `{"name":"own"}`, nil},
		"a person":                    {"POST", "/admin/v1/accounts?dry_run=true", `{"name":"new","password":"a long password","memberships":[{"organization":"own","project":"a","role":"ADMIN"}]}`, map[string]int{"admin": 200, "project admin": 200}},
		"a person elsewhere":          {"POST", "/admin/v1/accounts", `{"name":"new","memberships":[{"organization":"other","role":"VIEWER"}]}`, nil},
		"a person here and elsewhere": {"POST", "/admin/v1/accounts", `{"name":"new","memberships":[{"organization":"own","project":"a","role":"VIEWER"},{"organization":"other","role":"VIEWER"}]}`, nil},
		"a person with a role":        {"POST", "/admin/v1/accounts", `{"name":"new","role":"VIEWER","memberships":[{"organization":"own","project":"a","role":"VIEWER"}]}`, nil},
		"a person who sees bodies":    {"POST", "/admin/v1/accounts", `{"name":"new","read_bodies":true,"memberships":[{"organization":"own","project":"a","role":"VIEWER"}]}`, nil},
		"somebody's password":         {"PUT", "/admin/v1/accounts/other-person", `{"name":"other-person","password":"another password","memberships":[{"organization":"own","project":"a","role":"VIEWER"}]}`, nil},
		"somebody, gone":              {"DELETE", "/admin/v1/accounts/other-person", ``, byAdmins(404)},
		"a provider":                  {"PUT", "/admin/v1/providers/p", `{"name":"p","vendor":"echo"}`, nil},
		"a token":                     {"POST", "/admin/v1/admintokens", `{"display_name":"t","scopes":["keys:read"]}`, nil},
		"everything at once":          {"POST", "/admin/v1/apply", `{"kind":"Project","name":"own/new"}`, nil},
		"a rollback":                  {"POST", "/admin/v1/rollback?revision=1", ``, nil},
		"the export":                  {"GET", "/admin/v1/export", ``, nil},
		"the audit log":               {"GET", "/admin/v1/audit", ``, byAdmins(200)},
		"another's audit log":         {"GET", "/admin/v1/audit?organization=other", ``, nil},
		"the whole chain":             {"GET", "/admin/v1/audit/verify", ``, nil},
		"sinks of the audit log":      {"GET", "/admin/v1/audit/sinks", ``, nil},
		"a history":                   {"GET", "/admin/v1/history/keys/" + mine, ``, nil},
		"another's history":           {"GET", "/admin/v1/history/projects/other/a", ``, nil},
		"the health":                  {"GET", "/admin/v1/health", ``, nil},
	} {
		for name, p := range roles {
			want := c.want[name]
			if want == 0 {
				want = 403
			}
			a := ask(p, c.method, c.path, c.body)
			require.Equal(t, want, a.status, "%s: %s: %s", name, what, a.body)
			require.NotContains(t, a.body, "already exists", what)
			if strings.HasPrefix(a.body, `{"id"`) {
				require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/keys/"+gjson.Get(a.body, "id").Str, "").status)
			}
		}
	}
}

// TestNothingTellsWhetherAnothersObjectExists compares the answers about another's object and about none.
func TestNothingTellsWhetherAnothersObjectExists(t *testing.T) {
	b, ask := tenanted(t)
	p := member("own", "", configv1.Role_ADMIN)
	other := b.key(t, "other", "a")
	for _, pair := range [][2]string{{"keys/" + other, "keys/" + other[:len(other)-1] + "0"},
		{"projects/other/a", "projects/other/x"},
		{"organizations/other", "organizations/none"}} {
		for _, request := range [][]string{{"GET", "", ""}, {"DELETE", "", ""}, {"DELETE", "", "", "If-Match", "*"},
			{"PUT", "", "{}", "If-None-Match", "*"}, {"GET", "/consumption", ""}, {"POST", "/rotate", "{}"}} {
			there := ask(p, request[0], "/admin/v1/"+pair[0]+request[1], body(request[2], pair[0]), request[3:]...)
			none := ask(p, request[0], "/admin/v1/"+pair[1]+request[1], body(request[2], pair[1]), request[3:]...)
			_, name, _ := strings.Cut(pair[0], "/")
			_, other, _ := strings.Cut(pair[1], "/")
			plain := strings.NewReplacer(name, other)
			require.Equal(t, none.status, there.status, "%v %v: %s %s", request, pair, there.body, none.body)
			require.Equal(t, none.body, plain.Replace(there.body), "%v %v", request, pair)
		}
	}
}

func body(form, path string) string {
	if form == "" {
		return ""
	}
	_, name, _ := strings.Cut(path, "/")
	return `{"name":"` + name + `"}`
}

func TestMembersChangeOnlyTheirOwnKeys(t *testing.T) {
	b, ask := tenanted(t)
	ann := member("own", "a", configv1.Role_MEMBER)
	bob := ann
	ann.Name, bob.Name = "ann", "bob"
	b.people(t, memberOf("ann", "own"))
	made := ask(ann, "POST", "/admin/v1/keys", `{"display_name":"ann's","organization":"own","project":"a"}`)
	require.Equal(t, 201, made.status, made.body)
	id := gjson.Get(made.body, "id").Str
	require.Equal(t, "ann", gjson.Get(b.do(t, "GET", "/admin/v1/keys/"+id, "").body, "owner").Str)
	require.Equal(t, 400, ask(ann, "POST", "/admin/v1/keys", `{"display_name":"x","organization":"own","project":"a","owner":"bob"}`).status)
	path := "/admin/v1/keys/" + id
	require.Equal(t, 403, ask(bob, "POST", path+"/rotate", `{}`).status)
	require.Equal(t, 403, ask(bob, "PUT", path, `{"name":"`+id+`","display_name":"x","organization":"own","project":"a","owner":"bob"}`).status)
	require.Equal(t, 200, ask(bob, "GET", path, "").status)
	require.Equal(t, 200, ask(ann, "POST", path+"/rotate", `{}`).status)
	require.Equal(t, 200, ask(ann, "PUT", path, `{"name":"`+id+`","display_name":"renamed","organization":"own","project":"a"}`).status)
	require.Equal(t, "ann", gjson.Get(b.do(t, "GET", path, "").body, "owner").Str, "it stays hers")
	require.Equal(t, 403, ask(bob, "DELETE", path, "").status)
	require.Equal(t, 204, ask(ann, "DELETE", path, "").status)
}

func TestATokenOfATenant(t *testing.T) {
	b, _ := tenanted(t)
	own, other := b.key(t, "own", "a"), b.key(t, "other", "a")
	made := b.makeToken(t, `{"display_name":"ci","scopes":["keys:read","usage:read"],"organization":"own","project":"a"}`)
	require.Equal(t, 200, b.do(t, "GET", "/admin/v1/keys/"+own, "", as(made.Token)).status)
	require.Equal(t, 404, b.do(t, "GET", "/admin/v1/keys/"+other, "", as(made.Token)).status)
	require.Equal(t, 403, b.do(t, "GET", "/admin/v1/summary?organization=other", "", as(made.Token)).status)
	require.Equal(t, 403, b.do(t, "GET", "/admin/v1/audit", "", as(made.Token)).status)
	made = b.makeToken(t, `{"display_name":"siem","scopes":["audit:read"],"organization":"own","project":"a"}`)
	audited := b.do(t, "GET", "/admin/v1/audit", "", as(made.Token))
	require.Equal(t, 200, audited.status, audited.body)
	require.Contains(t, audited.body, "own/a")
	require.NotContains(t, audited.body, "other")
	require.Equal(t, 400, b.do(t, "POST", "/admin/v1/admintokens", `{"display_name":"ci","scopes":["status:read"],"organization":"own"}`).status)
	require.Equal(t, 400, b.do(t, "POST", "/admin/v1/admintokens", `{"display_name":"ci","scopes":["keys:read"],"project":"own"}`).status)
}

// TestQueriesOfTenantsPeople: whatever they ask for, the ledger is asked for their own.
func TestQueriesOfTenantsPeople(t *testing.T) {
	_, ask := tenanted(t)
	ofAll, ofA := member("own", "", configv1.Role_VIEWER), member("own", "a", configv1.Role_VIEWER)
	for _, path := range []string{"/admin/v1/summary", "/admin/v1/series", "/admin/v1/requests",
		"/admin/v1/outcomes", "/admin/v1/findings", "/admin/v1/cache"} {
		for _, p := range []authz.Principal{ofAll, ofA} {
			require.Equal(t, 200, ask(p, "GET", path, "").status, path)
			require.Equal(t, 200, ask(p, "GET", path+"?organization=own", "").status, path)
			for _, query := range []string{"organization=other", "organization[]=other", "organization[0]=other",
				"organization=own&organization=other", "organization="} {
				require.Equal(t, 403, ask(p, "GET", path+"?"+query, "").status, path+"?"+query)
			}
		}
		require.Equal(t, 403, ask(ofA, "GET", path+"?project=b", "").status)
	}
}

func TestTheFirstMembershipCountsUnlessAnotherIsAskedFor(t *testing.T) {
	a := &configv1.Account{Name: "ann", Memberships: []*configv1.Membership{
		{Organization: "acme", Role: configv1.Role_VIEWER},
		{Organization: "acme", Project: "web", Role: configv1.Role_ADMIN}}}
	require.Equal(t, authz.Tenant{Organization: "acme"}, authz.PrincipalOfAccount(a, "", "").Tenant)
	p := authz.PrincipalOfAccount(a, "acme/web", "")
	require.Equal(t, "admin of acme/web", p.Role)
	require.True(t, p.May(authz.KeysWrite))
	for _, none := range []string{"other", "acme/", "acme/web/x", "/"} {
		p = authz.PrincipalOfAccount(a, none, "")
		require.Empty(t, p.Scopes, none)
		require.False(t, p.Tenant.IsAll(), none)
	}
	a.Role = configv1.Role_OWNER
	require.True(t, authz.PrincipalOfAccount(a, "", "").May(authz.Everything))
	require.False(t, authz.PrincipalOfAccount(a, "acme", "").May(authz.KeysWrite), "as they have asked for")
	require.Empty(t, authz.PrincipalOfAccount(&configv1.Account{Name: "nobody"}, "", "").Scopes)
}
