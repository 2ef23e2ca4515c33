package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// doors are the ways in which an administrator writes an account.
func doors() map[string]func(ask asker, p authz.Principal, name, document string) answer {
	return map[string]func(ask asker, p authz.Principal, name, document string) answer{
		"PUT": func(ask asker, p authz.Principal, name, document string) answer {
			return ask(p, "PUT", "/admin/v1/accounts/"+name, document)
		},
		"POST": func(ask asker, p authz.Principal, _, document string) answer {
			return ask(p, "POST", "/admin/v1/accounts", document)
		},
		"apply": func(ask asker, p authz.Principal, _, document string) answer {
			return ask(p, "POST", "/admin/v1/apply", `[`+strings.Replace(document, `{`, `{"kind":"Account",`, 1)+`]`)
		},
		"dry run": func(ask asker, p authz.Principal, name, document string) answer {
			return ask(p, "PUT", "/admin/v1/accounts/"+name+"?dry_run=true", document)
		},
	}
}

func inOwn(name, more string) string {
	return fmt.Sprintf(`{"name":"%s",%s"memberships":[{"organization":"own","project":"a","role":"VIEWER"}]}`, name, more)
}

// says is what a refusal says. An apply is closed to people of a tenant.
func says(door, field string) string {
	if door == "apply" {
		return "your rights are within own"
	}
	return "the " + field + " of an account"
}

const own12 = `"password":"` + goodPassword + `",`

func TestATenantSetsNoIdentity(t *testing.T) {
	b, ask := tenanted(t)
	identities := []string{`"identity":{"issuer":"` + issuer + `"},`,
		`"identity":{"issuer":"` + issuer + `","subject":"7"},`,
		`"identity":{"issuer":"https://other.example"},`}
	for _, p := range []authz.Principal{member("own", "", configv1.Role_ADMIN), member("own", "a", configv1.Role_ADMIN)} {
		for door, write := range doors() {
			for _, identity := range identities {
				requireError(t, write(ask, p, "new", inOwn("new", own12+identity)), 403, "insufficient_permissions",
					says(door, "identity"))
			}
			for _, more := range []string{`"provisioning":{"provider":"corp","id":"usr_1","user_name":"new"},` + identities[0],
				`"role":"VIEWER",`, `"read_bodies":true,`, `"break_glass":true,`} {
				require.Equal(t, 403, write(ask, p, "new", inOwn("new", own12+more)).status, "%s %s", door, more)
			}
		}
		require.Equal(t, 201, ask(p, "PUT", "/admin/v1/accounts/made", inOwn("made", own12)).status)
		requireError(t, ask(p, "PUT", "/admin/v1/accounts/made", inOwn("made", identities[0])), 403,
			"insufficient_permissions", "identity")
		require.Equal(t, 204, ask(p, "DELETE", "/admin/v1/accounts/made", "").status)
	}

	p := member("own", "", configv1.Role_ADMIN)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/bound", inOwn("bound", identities[1])).status)
	for field, document := range map[string]string{
		"identity": inOwn("bound", ""), "password": inOwn("bound", own12+identities[1]),
		"disabled": inOwn("bound", `"disabled":true,`+identities[1]),
	} {
		for door, write := range doors() {
			if door != "POST" {
				requireError(t, write(ask, p, "bound", document), 403, "insufficient_permissions", says(door, field))
			}
		}
	}
	require.Equal(t, 403, ask(p, "PUT", "/admin/v1/accounts/bound", inOwn("bound", identities[0])).status, "no subject")
	a := ask(p, "PUT", "/admin/v1/accounts/bound", strings.Replace(inOwn("bound", identities[1]), "VIEWER", "MEMBER", 1))
	require.Equal(t, 200, a.status, a.body)
}

// TestADirectoryTakesOverWhatATenantHasMade has an admin of a tenant make the account before the directory does.
func TestADirectoryTakesOverWhatATenantHasMade(t *testing.T) {
	b, ask := tenanted(t)
	c := b.provisioned(t, "corp", issuer)
	p := member("own", "", configv1.Role_ADMIN)
	for i, how := range []string{"create", "rename", "PUT"} {
		name := fmt.Sprintf("chief%d@corp.example", i)
		require.Equal(t, 201, ask(p, "PUT", "/admin/v1/accounts/"+name, inOwn(name, own12+`"disabled":true,`)).status)
		made := b.account(t, name)
		require.Equal(t, "own", made.GetTenant())
		token := b.makeToken(t, `{"display_name":"x","scopes":["config:read"]}`)
		b.setOwner(t, token.ID, name)

		var id string
		var theirs adminapi.NewToken
		switch how {
		case "create":
			id = c.make(t, "Users", `{"userName":"`+name+`","active":true}`)
		case "rename":
			id = c.make(t, "Users", `{"userName":"before"}`)
			require.Equal(t, 200, c.do(t, "PATCH", "Users/"+id,
				patch(`{"op":"replace","path":"userName","value":"`+strings.ToUpper(name)+`"}`)).status)
		default:
			id = c.make(t, "Users", `{"userName":"before"}`)
			theirs = b.makeToken(t, `{"display_name":"y","scopes":["config:read"]}`)
			b.setOwner(t, theirs.ID, "before")
			require.Equal(t, 200, c.do(t, "PUT", "Users/"+id, `{"userName":"`+name+`"}`).status)
			require.Contains(t, b.do(t, "GET", "/admin/v1/admintokens/"+theirs.ID, "").body, `"owner":"`+name+`"`)
			require.Equal(t, 401, b.do(t, "GET", "/admin/v1/providers", "", as(theirs.Token)).status, "its maker has no role")
		}
		c.make(t, "Groups", `{"displayName":"ops`+strings.Repeat(" ", i)+`","externalId":"id-of-admins","members":[{"value":"`+id+`"}]}`)
		if how == "PUT" {
			require.Equal(t, 200, b.do(t, "GET", "/admin/v1/providers", "", as(theirs.Token)).status)
		}
		a := b.account(t, name)
		require.Equal(t, configv1.Role_ADMIN, a.GetRole(), how)
		require.Empty(t, a.GetPasswordHash(), how)
		require.Empty(t, a.GetMemberships(), how)
		require.Empty(t, a.GetTenant(), how)
		require.Empty(t, a.GetIdentity().GetSubject(), how)
		require.False(t, a.Barred(), how)
		require.NotEqual(t, made.GetCreatedAt().AsTime(), a.GetCreatedAt().AsTime(), how)
		require.Equal(t, 401, b.do(t, "GET", "/admin/v1/providers", "", as(token.Token)).status, "its token is gone")
		require.Equal(t, 403, ask(p, "PUT", "/admin/v1/accounts/"+name, inOwn(name, own12)).status, "the tenant is out")
		var said string
		for _, e := range b.audited(t, adminapi.ListOptions{}) {
			if e.Name == name && strings.Contains(e.Diff, "new holder") {
				said = e.Diff
			}
		}
		for _, lost := range []string{"all sessions", "the password", "own/a VIEWER", "the token " + token.ID} {
			require.Contains(t, said, lost)
		}
		require.NotContains(t, said, "argon2id")
		require.Equal(t, 204, c.do(t, "DELETE", "Users/"+id, "").status)
	}
}

func TestADirectoryTakesOverNoAccountOfOperators(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/organizations", `{"name":"own"}`).status)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/projects/own/a", `{"name":"own/a"}`).status)
	id := c.make(t, "Users", `{"userName":"before"}`)
	for name, document := range map[string]string{
		"member": inOwn("member", own12),
		"viewer": `{"name":"viewer","role":"VIEWER",` + strings.TrimSuffix(own12, ",") + `}`,
		"glass": `{"name":"glass","role":"OWNER","break_glass":true,"identity":{"issuer":"` + issuer + `"},` +
			strings.TrimSuffix(own12, ",") + `}`,
	} {
		require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/"+name, document).status, name)
		before := b.account(t, name)
		for _, a := range []answer{c.do(t, "POST", "Users", `{"userName":"`+name+`"}`),
			c.do(t, "PUT", "Users/"+id, `{"userName":"`+strings.ToUpper(name)+`"}`),
			c.do(t, "PATCH", "Users/"+id, patch(`{"op":"add","value":{"userName":"`+name+`"}}`)),
			c.do(t, "PATCH", "Users/"+id, patch(`{"op":"replace","path":"urn:ietf:params:scim:schemas:core:2.0:User:userName","value":"`+name+`"}`))} {
			require.Equal(t, 409, a.status, a.body)
			require.Contains(t, a.body, "An owner of the gateway can delete it, or set its identity")
		}
		require.Equal(t, before.String(), b.account(t, name).String(), "%s", name)
	}
}

// An operator who is no owner prepares an account with a password, and the groups of the directory make it an owner's.
func TestAnAdminsPasswordOpensNoAccountOfADirectory(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	admins := as(b.makeToken(t, `{"display_name":"x","scopes":["config:read","config:write","keys:read","keys:write",
		"usage:read","jobs:read","jobs:write","audit:read","status:read","playground","admins:read","admins:write"]}`).Token)
	prepared := `{"name":"chief","role":"VIEWER","identity":{"issuer":"` + issuer + `"}%s}`
	known := fmt.Sprintf(prepared, `,"password":"`+goodPassword+`"`)
	requireError(t, b.do(t, "PUT", "/admin/v1/accounts/chief", known, admins),
		403, "insufficient_permissions", "operators can set, while it has an identity, only with the scope *, the password of an account")
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/chief",
		`{"name":"chief","role":"VIEWER","password":"`+goodPassword+`"}`, admins).status)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/accounts/chief", fmt.Sprintf(prepared, ""), admins).status)
	c.make(t, "Users", `{"userName":"chief"}`)
	require.Empty(t, b.account(t, "chief").GetPasswordHash())
	shown := b.do(t, "GET", "/admin/v1/accounts/chief", "").body
	given := strings.Replace(shown, `"name":"chief"`, `"name":"chief","password":"`+goodPassword+`"`, 1)
	require.Equal(t, 403, b.do(t, "PUT", "/admin/v1/accounts/chief", given, admins).status)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/accounts/chief", given).status, "an owner may")
}

func TestRightsOutsideATenantNeedANewPassword(t *testing.T) {
	b, ask := tenanted(t)
	ofA := member("own", "a", configv1.Role_ADMIN)
	require.Equal(t, 201, ask(ofA, "PUT", "/admin/v1/accounts/pat", inOwn("pat", own12)).status)
	require.Equal(t, "own/a", b.account(t, "pat").GetTenant())
	root := authz.Principal{Name: "root", Role: "owner", Scopes: []authz.Scope{authz.Everything}}
	for _, more := range []string{`"role":"VIEWER",`, `"read_bodies":true,`, `"break_glass":true,`,
		`"memberships":[{"organization":"own","role":"VIEWER"}],`, `"memberships":[{"organization":"other","role":"VIEWER"}],`} {
		document := inOwn("pat", more)
		if strings.Contains(more, "memberships") {
			document = `{"name":"pat",` + strings.TrimSuffix(more, ",") + `}`
		}
		for _, same := range []string{document, strings.Replace(document, `{`, `{`+own12, 1)} {
			requireError(t, ask(root, "PUT", "/admin/v1/accounts/pat", same), 400, "invalid_object", "must be given anew")
		}
		a := ask(root, "PUT", "/admin/v1/accounts/pat?dry_run=true",
			strings.Replace(document, `{`, `{"password":"another good password",`, 1))
		require.Equal(t, 200, a.status, a.body)
	}
	wider := `{"name":"pat",%s"memberships":[{"organization":"own","role":"ADMIN"}]}`
	ofAll := member("own", "", configv1.Role_ADMIN)
	require.Equal(t, 400, ask(ofAll, "PUT", "/admin/v1/accounts/pat", fmt.Sprintf(wider, "")).status,
		"a project's admin would get into the organization")
	require.Equal(t, 200, ask(ofAll, "PUT", "/admin/v1/accounts/pat",
		fmt.Sprintf(wider, `"password":"another good password",`)).status)
	require.Equal(t, "own", b.account(t, "pat").GetTenant())
	require.Equal(t, 200, ask(root, "PUT", "/admin/v1/accounts/pat", inOwn("pat", `"tenant":"x","password":"a third good password",`)).status)
	require.Empty(t, b.account(t, "pat").GetTenant(), "it cannot be written, and operators have given the password")

	require.Equal(t, 201, ask(ofA, "PUT", "/admin/v1/accounts/sam", inOwn("sam", "")).status)
	require.Equal(t, 200, ask(root, "PUT", "/admin/v1/accounts/sam",
		`{"name":"sam","memberships":[{"organization":"other","role":"VIEWER"}]}`).status, "there is no password to know")
	seen := ask(member("other", "", configv1.Role_ADMIN), "GET", "/admin/v1/accounts/sam", "")
	require.Equal(t, 200, seen.status)
	require.NotContains(t, seen.body, "own", "another tenant is not shown who has made the account")
}

// TestAnAccountOfADeletedName has people of a tenant make an account whose name an owner had.
func TestAnAccountOfADeletedName(t *testing.T) {
	s := newSupervised(t, `"budget_usd_month":"50"`)
	s.people["tenant"] = member("acme", "", configv1.Role_ADMIN)
	require.Equal(t, 201, s.do(t, "PUT", "/admin/v1/accounts/gone", `{"name":"gone","role":"ADMIN","password":"`+goodPassword+`"}`).status)
	s.people["gone"] = authz.PrincipalOfAccount(s.account(t, "gone"), "", "")
	s.waits(t, "gone", "PUT", "/organizations/acme", `{"name":"acme","budgets":[{"unit":"MONTH","usd":"900"}]}`)
	token := s.makeToken(t, `{"display_name":"x","scopes":["config:read"]}`)
	s.setOwner(t, token.ID, "gone")
	require.Equal(t, 204, s.do(t, "DELETE", "/admin/v1/accounts/gone", "").status)

	made := `{"name":"gone","password":"` + goodPassword + `","memberships":[{"organization":"acme","role":"VIEWER"}]}`
	require.Equal(t, 404, s.do(t, "GET", "/admin/v1/admintokens/"+token.ID, "").status, "the token has gone with it")
	older := s.makeToken(t, `{"display_name":"of an older version","scopes":["config:read"]}`)
	s.setOwner(t, older.ID, "gone")
	require.Equal(t, 401, s.do(t, "GET", "/admin/v1/providers", "", as(older.Token)).status)
	require.Equal(t, 403, s.ask(t, "tenant", "POST", "/accounts", made).status, "there are tokens under the name")
	c := s.provisioned(t, "corp", issuer)
	c.make(t, "Users", `{"userName":"gone"}`)
	require.Equal(t, 404, s.do(t, "GET", "/admin/v1/admintokens/"+older.ID, "").status, "it is not the next one's")
	waiting := gjson.Get(s.do(t, "GET", "/admin/v1/approvals", "").body, "items").Raw
	require.Equal(t, "[]", waiting, "the change does not wait")
	require.Equal(t, 403, s.do(t, "PUT", "/admin/v1/accounts/root", `{"name":"root","role":"VIEWER"}`).status)
}

func TestSCIMComparesNamesInOneForm(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	id := c.make(t, "Users", `{"userName":"Kim@corp.example"}`)
	require.Equal(t, 409, c.do(t, "POST", "Users", `{"userName":"kIM@corp.example"}`).status)
	for _, name := range []string{"\u212aim@corp.example", "k\u0130m@corp.example", "kim\u200b@corp.example",
		" kim@corp.example"} {
		for _, a := range []answer{c.do(t, "POST", "Users", `{"userName":"`+name+`"}`),
			c.do(t, "PATCH", "Users/"+id, patch(`{"op":"replace","path":"userName","value":"`+name+`"}`))} {
			require.Equal(t, 400, a.status, a.body)
			require.Contains(t, a.body, "letters of ASCII")
		}
		require.Empty(t, c.users(t, "filter="+url.QueryEscape(`userName eq "`+name+`"`)), "%+q", name)
	}
	require.Len(t, c.users(t, "filter="+url.QueryEscape(`userName eq "KIM@CORP.example"`)), 1)
}

// setOwner has a token be of an account.
func (b *bench) setOwner(t *testing.T, token, account string) {
	t.Helper()
	kind := configv1.KindOf((*configv1.AdminToken)(nil))
	e, err := b.store.Get(t.Context(), kind, token)
	require.NoError(t, err)
	o := e.Object.(*configv1.AdminToken)
	o.Owner = account
	text, err := configv1.Marshal(o)
	require.NoError(t, err)
	_, err = b.etcd.Put(t.Context(), "/modelgate/v1/admintokens/"+token, string(text))
	require.NoError(t, err)
}
