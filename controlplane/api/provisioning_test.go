package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
)

const issuer = "https://corp.example"

// A client is a SCIM client with the token of a provider.
type client struct {
	*bench
	authorization string
}

// provisioned adds a provider to the configuration, whose groups give roles, and returns its client.
func (b *bench) provisioned(t *testing.T, name, issuer string) *client {
	t.Helper()
	a := b.do(t, "PUT", "/admin/v1/identityproviders/"+name, `{"name":"`+name+`","issuer":"`+issuer+`","client_id":"c",
		"roles":[{"group":"staff","role":"VIEWER"},{"group":"ops","role":"OPERATOR"},{"group":"id-of-admins","role":"ADMIN"}]}`)
	require.Equal(t, 201, a.status, a.body)
	made := b.makeToken(t, `{"display_name":"`+name+`","scopes":["scim"],"identity_provider":"`+name+`"}`)
	return &client{b, as(made.Token)}
}

// do sends a request to SCIM. What it gets has to be of its media type.
func (c *client) do(t *testing.T, method, path, body string) answer {
	t.Helper()
	a := c.bench.do(t, method, "/scim/v2/"+path, body, c.authorization, "Content-Type: application/scim+json")
	if a.status != http.StatusNoContent {
		require.Equal(t, "application/scim+json", a.header.Get("Content-Type"), a.body)
	}
	return a
}

// make creates a resource and returns its id.
func (c *client) make(t *testing.T, path, body string) string {
	t.Helper()
	a := c.do(t, "POST", path, body)
	require.Equal(t, 201, a.status, a.body)
	made := decoded(t, a)
	require.Equal(t, "/scim/v2/"+path+"/"+made["id"].(string), a.header.Get("Location"))
	return made["id"].(string)
}

func decoded(t *testing.T, a answer) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &v), a.body)
	return v
}

func patch(operations string) string {
	return `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[` + operations + `]}`
}

// users are those that a filter finds, as "userName active".
func (c *client) users(t *testing.T, query string) []string {
	t.Helper()
	a := c.do(t, "GET", "Users?"+query, "")
	require.Equal(t, 200, a.status, a.body)
	found := []string{}
	for _, r := range decoded(t, a)["Resources"].([]any) {
		found = append(found, fmt.Sprint(r.(map[string]any)["userName"], " ", r.(map[string]any)["active"]))
	}
	return found
}

// The requests are those of https://developer.okta.com/docs/api/openapi/okta-scim/guides/scim-20.
func TestOktaProvisions(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "okta", issuer)
	require.JSONEq(t, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:ListResponse"],"totalResults":0,"startIndex":1,
		"itemsPerPage":0,"Resources":[]}`,
		c.do(t, "GET", "Users?filter=userName%20eq%20%22test.user%40okta.local%22&startIndex=1&count=100", "").body)
	id := c.make(t, "Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"Test.User@okta.local",
		"name":{"givenName":"Test","familyName":"User"},"emails":[{"primary":true,"value":"test.user@okta.local","type":"work"}],
		"displayName":"Test User","locale":"en-US","externalId":"00ujl29u0le5T6Aj10h7","groups":[],"password":"1mz050nq",
		"active":true}`)
	a := b.account(t, "test.user@okta.local")
	require.Equal(t, "Test User", a.GetDisplayName())
	require.Equal(t, issuer+" ", a.GetIdentity().GetIssuer()+" "+a.GetIdentity().GetSubject())
	require.Empty(t, a.GetPasswordHash(), "a password that is sent along is not kept")
	require.True(t, a.Barred(), "without a group there is no role")

	got := decoded(t, c.do(t, "GET", "Users/"+id, ""))
	delete(got["meta"].(map[string]any), "created")
	require.Equal(t, map[string]any{"schemas": []any{"urn:ietf:params:scim:schemas:core:2.0:User"}, "id": id,
		"userName": "Test.User@okta.local", "externalId": "00ujl29u0le5T6Aj10h7", "displayName": "Test User",
		"active": true, "groups": []any{},
		"meta": map[string]any{"resourceType": "User", "location": "/scim/v2/Users/" + id}}, got)

	group := c.make(t, "Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"displayName":"ops",
		"members":[{"value":"`+id+`","display":"test.user@okta.local"}]}`)
	require.Equal(t, configv1.Role_OPERATOR, b.account(t, "test.user@okta.local").GetRole())
	require.False(t, b.account(t, "test.user@okta.local").Barred())

	put := c.do(t, "PUT", "Users/"+id, `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"id":"`+id+`",
		"userName":"other.user@okta.local","name":{"givenName":"Another","familyName":"User"},"active":true,"groups":[],
		"meta":{"resourceType":"User"}}`)
	require.Equal(t, 200, put.status, put.body)
	a = b.account(t, "other.user@okta.local")
	require.Equal(t, "Another User", a.GetDisplayName())
	require.Equal(t, configv1.Role_OPERATOR, a.GetRole(), "groups are not the user's to set")
	require.Equal(t, 404, b.do(t, "GET", "/admin/v1/accounts/test.user@okta.local", "").status)

	renamed := c.do(t, "PATCH", "Groups/"+group,
		patch(`{"op":"replace","value":{"id":"`+group+`","displayName":"staff"}}`))
	require.Equal(t, 204, renamed.status, renamed.body)
	require.Equal(t, configv1.Role_VIEWER, b.account(t, "other.user@okta.local").GetRole())

	off := c.do(t, "PATCH", "Users/"+id, patch(`{"op":"replace","value":{"active":false}}`))
	require.Equal(t, 200, off.status, off.body)
	require.Equal(t, false, decoded(t, off)["active"])
	require.True(t, b.account(t, "other.user@okta.local").Barred())
	require.Equal(t, 204, c.do(t, "PATCH", "Groups/"+group,
		patch(`{"op":"remove","path":"members[value eq \"`+id+`\"]"},{"op":"add","path":"members","value":[]}`)).status)
	require.Equal(t, configv1.Role_ROLE_UNSPECIFIED, b.account(t, "other.user@okta.local").GetRole())
	require.Equal(t, 204, c.do(t, "DELETE", "Groups/"+group, "").status)
	require.Equal(t, 204, c.do(t, "DELETE", "Users/"+id, "").status)
	require.Equal(t, 404, b.do(t, "GET", "/admin/v1/accounts/other.user@okta.local", "").status)
	audit := b.do(t, "GET", "/admin/v1/audit", "").body
	require.Contains(t, audit, `"role":"scim"`)
	require.NotContains(t, audit, "1mz050nq")
}

// The requests are those of
// https://learn.microsoft.com/entra/identity/app-provisioning/use-scim-to-provision-users-and-groups and, below the
// same address, of application-provisioning-config-problem-scim-compatibility.
func TestEntraProvisions(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "entra", issuer)
	id := c.make(t, "Users", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User",
		"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],"externalId":"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
		"userName":"Test_User_ab6490ee@testuser.com","active":true,"emails":[{"primary":true,"type":"work","value":"a@b.c"}],
		"meta":{"resourceType":"User"},"name":{"formatted":"givenName familyName","familyName":"familyName",
		"givenName":"givenName"},"roles":[]}`)
	const name = "test_user_ab6490ee@testuser.com"
	require.Equal(t, "givenName familyName", b.account(t, name).GetDisplayName())
	require.Equal(t, []string{"Test_User_ab6490ee@testuser.com true"},
		c.users(t, "filter=userName+eq+%22test_user_AB6490ee@testuser.com%22"))
	require.Equal(t, []string{"Test_User_ab6490ee@testuser.com true"},
		c.users(t, "filter=externalId+eq+%220a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef%22"))

	group := c.make(t, "Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group",
		"http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],"externalId":"id-of-admins",
		"displayName":"displayName","meta":{"resourceType":"Group"}}`)
	a := c.do(t, "GET", "Groups?excludedAttributes=members&filter=displayName+eq+%22displayName%22", "")
	require.NotContains(t, a.body, "members")
	require.Contains(t, a.body, `"totalResults":1`)
	require.Equal(t, 204, c.do(t, "PATCH", "Groups/"+group,
		patch(`{"op":"Add","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`)).status)
	require.Equal(t, configv1.Role_ADMIN, b.account(t, name).GetRole(), "by the id of the group, as tokens have it")
	require.Contains(t, c.do(t, "GET", "Groups/"+group, "").body, id)
	require.Contains(t, c.do(t, "GET", "Users/"+id, "").body, group)
	a = c.do(t, "GET", "Groups?filter=members%5Bvalue+eq+%22"+id+"%22%5D&attributes=id", "")
	require.Contains(t, a.body, `"totalResults":1`)
	require.NotContains(t, a.body, "displayName")

	for _, body := range []string{
		`{"op":"Replace","path":"active","value":"False"}`,
		`{"op":"Replace","path":"emails[type eq \"work\"].value","value":"updated@b.c"},
		 {"op":"Replace","path":"name.familyName","value":"x"},
		 {"op":"Add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department","value":"x"},
		 {"op":"Replace","path":"urn:ietf:params:scim:schemas:core:2.0:User:displayName","value":"New"}`,
		`{"op":"Add","value":{"name.givenName":"y","DisplayName":"Newer","active":"True"}}`,
	} {
		a := c.do(t, "PATCH", "Users/"+id, patch(body))
		require.Equal(t, 200, a.status, a.body)
	}
	require.Equal(t, "Newer", b.account(t, name).GetDisplayName())
	require.False(t, b.account(t, name).GetProvisioning().GetInactive())
	require.Equal(t, 204, c.do(t, "PATCH", "Groups/"+group,
		patch(`{"op":"Remove","path":"members","value":[{"$ref":null,"value":"`+id+`"}]}`)).status)
	require.True(t, b.account(t, name).Barred())
	require.Equal(t, 204, c.do(t, "PATCH", "Groups/"+group,
		patch(`{"op":"Replace","path":"members","value":{"value":"`+id+`"}}`)).status)
	require.Equal(t, configv1.Role_ADMIN, b.account(t, name).GetRole())
	require.Equal(t, 204, c.do(t, "PATCH", "Groups/"+group, patch(`{"op":"Remove","path":"members"}`)).status)
	require.Equal(t, configv1.Role_ROLE_UNSPECIFIED, b.account(t, name).GetRole())
}

func TestPagesOfUsers(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	for i := range 7 {
		c.make(t, "Users", fmt.Sprintf(`{"userName":"u%d","externalId":"e%d"}`, i, i))
	}
	seen := map[string]bool{}
	for start := 1; start <= 7; start += 3 {
		page := c.users(t, fmt.Sprintf("startIndex=%d&count=3", start))
		require.LessOrEqual(t, len(page), 3)
		for _, u := range page {
			seen[u] = true
		}
	}
	require.Len(t, seen, 7)
	require.Empty(t, c.users(t, "startIndex=8"))
	require.Len(t, c.users(t, "startIndex=-5&count=100000"), 7)
	none := decoded(t, c.do(t, "GET", "Users?count=-1", ""))
	require.InDelta(t, 7, none["totalResults"], 0)
	require.Empty(t, none["Resources"])
	for filter, n := range map[string]int{
		`userName sw "u" and not (userName eq "U3")`: 6, `active eq true`: 7, `active eq false or externalId ew "5"`: 1,
		`externalId eq "E5"`: 0, `userName co "2"`: 1, `displayName pr`: 0, `groups pr`: 0, `id ne ""`: 7,
		`urn:ietf:params:scim:schemas:core:2.0:User:userName eq "u1"`: 1, `userName eq "\u0075\u0031"`: 1,
	} {
		require.Len(t, c.users(t, "filter="+url.QueryEscape(filter)), n, filter)
	}
}

func TestErrorsOfSCIM(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	id := c.make(t, "Users", `{"userName":"ann"}`)
	c.make(t, "Users", `{"userName":"bob"}`)
	group := c.make(t, "Groups", `{"displayName":"staff","members":[{"value":"`+id+`"}]}`)
	c.make(t, "Groups", `{"displayName":"ops"}`)
	for _, tc := range []struct {
		method, path, body string
		status             int
		kind               string
	}{
		{"POST", "Users", `{`, 400, "invalidSyntax"},
		{"POST", "Users", `[]`, 400, "invalidSyntax"},
		{"POST", "Users", `null`, 400, "invalidSyntax"},
		{"POST", "Users", `{"userName":"cy","USERNAME":"dan"}`, 400, "invalidSyntax"},
		{"POST", "Users", `{}`, 400, "invalidValue"},
		{"POST", "Users", `{"userName":7}`, 400, "invalidValue"},
		{"POST", "Users", `{"userName":"../keys/x"}`, 400, "invalidValue"},
		{"POST", "Users", `{"userName":"cy","displayName":"` + strings.Repeat("x", 257) + `"}`, 400, "invalidValue"},
		{"POST", "Users", `{"userName":"cy","active":"maybe"}`, 400, "invalidValue"},
		{"POST", "Users", `{"userName":"cy","name":"Cy"}`, 400, "invalidValue"},
		{"POST", "Users", `{"userName":"ANN"}`, 409, "uniqueness"},
		{"POST", "Users", `{"userName":"` + strings.Repeat("x", 1<<20) + `"}`, 413, ""},
		{"PUT", "Users/" + id, `{"userName":"bob"}`, 409, "uniqueness"},
		{"PUT", "Users/" + id, `{"displayName":"x"}`, 400, "invalidValue"},
		{"PUT", "Users/usr_none", `{"userName":"x"}`, 404, ""},
		{"PATCH", "Users/" + id, `{}`, 400, "invalidSyntax"},
		{"PATCH", "Users/" + id, patch(``), 400, "invalidSyntax"},
		{"PATCH", "Users/" + id, patch(`{"op":"move","path":"active"}`), 400, "invalidSyntax"},
		{"PATCH", "Users/" + id, patch(`{"op":"remove"}`), 400, "noTarget"},
		{"PATCH", "Users/" + id, patch(`{"op":"replace","path":"a[","value":1}`), 400, "invalidPath"},
		{"PATCH", "Users/" + id, patch(`{"op":"replace","path":"userName.x","value":"y"}`), 400, "invalidPath"},
		{"PATCH", "Users/" + id, patch(`{"op":"replace","path":7,"value":"y"}`), 400, "invalidPath"},
		{"PATCH", "Users/" + id, patch(`{"op":"replace","value":"y"}`), 400, "invalidValue"},
		{"PATCH", "Users/" + id, patch(`{"op":"replace","path":"id","value":"y"}`), 400, "mutability"},
		{"PATCH", "Users/" + id, patch(`{"op":"add","path":"groups","value":[{"value":"` + group + `"}]}`), 400, "mutability"},
		{"PATCH", "Users/" + id, patch(`{"op":"remove","path":"userName"}`), 400, "invalidValue"},
		{"PATCH", "Users/" + id, patch(`{"op":"remove","path":"active"}`), 400, "mutability"},
		{"PATCH", "Users/" + id, patch(strings.Repeat(`{"op":"replace","path":"active","value":true},`, 1000) +
			`{"op":"replace","path":"active","value":true}`), 400, "invalidSyntax"},
		{"DELETE", "Users/usr_none", ``, 404, ""},
		{"GET", "Users/" + group, ``, 404, ""},
		{"POST", "Groups", `{}`, 400, "invalidValue"},
		{"POST", "Groups", `{"displayName":"Staff"}`, 409, "uniqueness"},
		{"POST", "Groups", `{"displayName":"x","members":[{"value":"` + group + `"}]}`, 400, "invalidValue"},
		{"POST", "Groups", `{"displayName":"x","members":["` + id + `"]}`, 400, "invalidValue"},
		{"PATCH", "Groups/" + group, patch(`{"op":"add","path":"members[value eq \"x\"]","value":{}}`), 400, "invalidPath"},
		{"PATCH", "Groups/" + group, patch(`{"op":"remove","path":"members[age gt 7]"}`), 400, "invalidFilter"},
		{"PATCH", "Groups/" + group, patch(`{"op":"remove","path":"displayName"}`), 400, "invalidValue"},
		{"PATCH", "Groups/" + group, patch(`{"op":"replace","path":"displayName","value":"ops"}`), 409, "uniqueness"},
		{"GET", "Users?filter=userName", ``, 400, "invalidFilter"},
		{"GET", "Users?filter=emails+eq+%22x%22", ``, 400, "invalidFilter"},
		{"GET", "Users?filter=userName+gt+%22x%22", ``, 400, "invalidFilter"},
		{"GET", "Users?filter=userName+eq+7", ``, 400, "invalidFilter"},
		{"GET", "Users?filter=active+eq+%22x%22", ``, 400, "invalidFilter"},
		{"GET", "Users?filter=userName+eq+%22" + strings.Repeat("x", 1024) + "%22", ``, 400, "invalidFilter"},
		{"GET", "Users?filter=" + strings.Repeat("(", 500) + "id+pr" + strings.Repeat(")", 500), ``, 400, "invalidFilter"},
		{"GET", "Users?filter=%ff", ``, 400, "invalidFilter"},
		{"GET", "Users?count=many", ``, 400, "invalidValue"},
		{"GET", "Schemas?filter=id+pr", ``, 403, ""},
		{"GET", "Schemas/none", ``, 404, ""},
		{"GET", "Me", ``, 501, ""},
		{"POST", ".search", `{}`, 501, ""},
		{"POST", "Bulk", `{}`, 404, ""},
		{"PUT", "Users", `{}`, 405, ""},
	} {
		a := c.do(t, tc.method, tc.path, tc.body)
		what := fmt.Sprintf("%s %.80s %.120s: %s", tc.method, tc.path, tc.body, a.body)
		require.Equal(t, tc.status, a.status, what)
		e := decoded(t, a)
		require.Equal(t, []any{"urn:ietf:params:scim:api:messages:2.0:Error"}, e["schemas"])
		require.Equal(t, fmt.Sprint(tc.status), e["status"], "a text, says the RFC")
		require.NotEmpty(t, e["detail"], what)
		kind, _ := e["scimType"].(string)
		require.Equal(t, tc.kind, kind, what)
	}
	require.Equal(t, configv1.Role_VIEWER, b.account(t, "ann").GetRole(), "nothing of it was done in part")
}

func TestPatchesOfTwoControlPlanesAreAllCarriedOut(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	group := c.make(t, "Groups", `{"displayName":"staff"}`)
	const n = 8
	ids := make([]string, n)
	for i := range ids {
		ids[i] = c.make(t, "Users", fmt.Sprintf(`{"userName":"u%d"}`, i))
	}
	planes := []http.Handler{api.New(b.config), api.New(b.config)}
	var all sync.WaitGroup
	statuses := make([]int, n)
	for i, id := range ids {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPatch, "/scim/v2/Groups/"+group,
				strings.NewReader(patch(`{"op":"add","path":"members","value":[{"value":"`+id+`"}]}`)))
			r.Header.Set("Authorization", strings.TrimPrefix(c.authorization, "Authorization: "))
			w := httptest.NewRecorder()
			planes[i%2].ServeHTTP(w, r)
			statuses[i] = w.Code
		})
	}
	all.Wait()
	for i := range ids {
		require.Equal(t, 204, statuses[i])
		require.Equal(t, configv1.Role_VIEWER, b.account(t, fmt.Sprintf("u%d", i)).GetRole())
	}
	require.Len(t, decoded(t, c.do(t, "GET", "Groups/"+group, ""))["members"], n)
}

func TestAGroupOfManyMembersIsChangedAsOne(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	var members []string
	for i := range 150 { // more than one transaction of etcd takes
		members = append(members, `{"value":"`+c.make(t, "Users", fmt.Sprintf(`{"userName":"u%d"}`, i))+`"}`)
	}
	group := c.make(t, "Groups", `{"displayName":"ops","members":[`+strings.Join(members, ",")+`]}`)
	require.Equal(t, configv1.Role_OPERATOR, b.account(t, "u149").GetRole())
	require.Equal(t, 204, c.do(t, "DELETE", "Groups/"+group, "").status)
	require.True(t, b.account(t, "u0").Barred())
	require.Empty(t, b.account(t, "u149").GetProvisioning().GetGroups())
}

func TestSCIMDescribesItself(t *testing.T) {
	b := newBench(t)
	c := b.provisioned(t, "corp", issuer)
	config := decoded(t, c.do(t, "GET", "ServiceProviderConfig", ""))
	require.Equal(t, map[string]any{"supported": true}, config["patch"])
	for path, names := range map[string][]string{"ResourceTypes": {"User", "Group"},
		"Schemas": {"urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:core:2.0:Group"}} {
		list := decoded(t, c.do(t, "GET", path, ""))
		require.InDelta(t, len(names), list["totalResults"], 0)
		for _, name := range names {
			require.Equal(t, name, decoded(t, c.do(t, "GET", path+"/"+name, ""))["id"])
		}
	}
}
