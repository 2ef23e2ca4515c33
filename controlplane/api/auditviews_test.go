package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// auditedTenants is a gateway with two tenants and a real ledger, in which each tenant's people, and operators, did
// something. Names and displays of what is not the tenant's own have "other" in them.
func auditedTenants(t *testing.T) (b *bench, ask asker, moved string) {
	t.Helper()
	b = newBench(t)
	l := withLedger(t, b)
	b.audit = audit.New(b.etcd, l, l, zap.NewNop())
	b.config.Audit = b.audit
	ask = tenantedOn(t, b)
	operator := func(status int, method, path, body string) string {
		t.Helper()
		a := b.do(t, method, "/admin/v1/"+path, body)
		require.Equal(t, status, a.status, a.body)
		return a.body
	}
	b.people(t, adminOf("own", "other"))
	operator(201, "POST", "providers", `{"name":"p-other","vendor":"echo"}`)
	operator(200, "PUT", "organizations/own", `{"name":"own","display_name":"mine"}`)
	a := ask(member("own", "", configv1.Role_ADMIN), "POST", "/admin/v1/keys", `{"display_name":"k1","organization":"own","project":"a"}`)
	require.Equal(t, 201, a.status, a.body)
	a = ask(member("other", "", configv1.Role_ADMIN), "POST", "/admin/v1/keys", `{"display_name":"k-other","organization":"other"}`)
	require.Equal(t, 201, a.status, a.body)
	operator(200, "PUT", "projects/own/b", `{"name":"own/b","display_name":"bee"}`)
	// Somebody with rights here, elsewhere and everywhere.
	person := `{"name":"pat","password":"a long password","role":"%s","memberships":[{"organization":"other","role":"ADMIN"}%s]}`
	operator(201, "POST", "accounts", fmt.Sprintf(person, "VIEWER", ""))
	operator(200, "PUT", "accounts/pat", fmt.Sprintf(person, "VIEWER", `,{"organization":"own","project":"a","role":"MEMBER"}`))
	operator(200, "PUT", "accounts/pat", fmt.Sprintf(person, "OPERATOR", `,{"organization":"own","project":"a","role":"MEMBER"}`))
	// A key that goes from the one to the other.
	moved = gjson.Get(operator(201, "POST", "keys", `{"display_name":"k2","organization":"own","project":"b"}`), "id").Str
	operator(200, "PUT", "keys/"+moved, `{"name":"`+moved+`","display_name":"k2","organization":"own","project":"a"}`)
	operator(200, "PUT", "keys/"+moved, `{"name":"`+moved+`","display_name":"k2 of other","organization":"other"}`)
	require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "ann", Address: "10.0.0.1",
		Action: "sign_in", Kind: "Account", Name: "ann",
		Tenants: audit.ViewsOfPrincipal(member("own", "a", configv1.Role_MEMBER))}))
	require.NoError(t, b.audit.Audit(t.Context(), adminapi.AuditEntry{Actor: "other-person", Action: "sign_in",
		Kind: "Account", Name: "other-person", Tenants: audit.ViewsOfPrincipal(member("other", "", configv1.Role_MEMBER))}))
	return b, ask, moved
}

// pagesOf returns all entries that somebody sees, oldest first, page by page.
func (ask asker) pagesOf(t *testing.T, p authz.Principal, query string) (all []gjson.Result, bodies string) {
	t.Helper()
	for after := ""; ; {
		a := ask(p, "GET", "/admin/v1/audit?limit=2&"+query+after, "")
		require.Equal(t, 200, a.status, a.body)
		all = append(gjson.Get(a.body, "items|@reverse").Array(), all...)
		bodies += a.body
		if after = "&after=" + gjson.Get(a.body, "next").Str; after == "&after=" {
			return all, bodies
		}
	}
}

func TestATenantsAdminSeesTheAuditLogOfTheirOwn(t *testing.T) {
	b, ask, moved := auditedTenants(t)
	ofAll, ofA := member("own", "", configv1.Role_ADMIN), member("own", "a", configv1.Role_ADMIN)
	look := func(p authz.Principal, query string) (shown []string) {
		all, bodies := ask.pagesOf(t, p, query)
		require.NotContains(t, bodies, "other", "nothing of another tenant")
		require.NotContains(t, bodies, "root", "nothing of who acted from outside")
		for _, e := range all {
			for _, hidden := range []string{"sequence", "hash", "previous", "tenants"} {
				require.False(t, e.Get(hidden).Exists(), hidden)
			}
			shown = append(shown, e.Get("actor").Str+" "+e.Get("action").Str+" "+e.Get("kind").Str+" "+
				strings.ReplaceAll(e.Get("name").Str, moved, "moved"))
		}
		return shown
	}
	for range 2 { // while they wait in etcd, and from the ledger
		all := look(ofAll, "")
		key := all[5]
		require.Regexp(t, "^admin create Key key_", key)
		require.Equal(t, []string{"(outside) create Organization own", "(outside) create Project own/a",
			"(outside) create Project own/b", "(outside) create Account own-person", "(outside) update Organization own", key,
			"(outside) update Project own/b", "(outside) join Account pat", "(outside) create Key moved",
			"(outside) update Key moved", "(outside) leave Key moved", "ann sign_in Account ann"}, all)
		require.Equal(t, []string{"(outside) create Project own/a", strings.Replace(key, "admin", "(outside)", 1),
			"(outside) join Account pat", "(outside) join Key moved", "(outside) leave Key moved", "ann sign_in Account ann"},
			look(ofA, ""))
		require.Equal(t, all[10:11], look(ofAll, "action=leave"))
		require.Empty(t, look(ofAll, "actor=root"), "a filter does not tell either")
		require.Equal(t, all[11:], look(ofAll, "actor=ann&project="))
		require.Equal(t, all[5:6], look(ofAll, "actor=admin&kind=Key"))
		b.ship(t)
	}
	entries, _ := ask.pagesOf(t, ofAll, "action=join")
	require.Contains(t, entries[0].Get("diff").Str, "organization: own")
	entries, _ = ask.pagesOf(t, ofAll, "action=sign_in")
	require.Equal(t, "10.0.0.1", entries[0].Get("address").Str)
	for _, query := range []string{"organization=other", "tenant=other", "as=other",
		"organization=own&organization=other"} {
		require.Contains(t, []int{400, 403}, ask(ofAll, "GET", "/admin/v1/audit?"+query, "").status, query)
	}
	require.Equal(t, 403, ask(ofA, "GET", "/admin/v1/audit?project=b", "").status)
}

// TestTheChainKnowsNoTenants: what operators and sinks get is what it was.
func TestTheChainKnowsNoTenants(t *testing.T) {
	b, _, _ := auditedTenants(t)
	for range 2 {
		a := b.do(t, "GET", "/admin/v1/audit?limit=100", "")
		require.NotContains(t, a.body, `"tenants"`)
		all := gjson.Get(a.body, "items.#").Int()
		b.requireIntact(t, all)
		of := b.do(t, "GET", "/admin/v1/audit?limit=100&organization=own&project=a", "")
		require.EqualValues(t, 6, gjson.Get(of.body, "items.#").Int(), of.body)
		require.Contains(t, of.body, `"actor":"root"`)
		require.Contains(t, of.body, `"hash"`)
		require.Equal(t, 400, b.do(t, "GET", "/admin/v1/audit?project=a", "").status)
		b.ship(t)
	}
}

func TestATenantDoesNotSeeWhoAskedForAChangeThatOperatorsApproved(t *testing.T) {
	s := newSupervised(t, above1000)
	id := s.waits(t, "olga", "PUT", "/organizations/acme", big("1000.01"))
	require.Equal(t, 200, s.approve(t, "bob", id).status)
	seen := s.ask(t, "tina", "GET", "/audit", "").body
	require.Contains(t, seen, `"action":"approve"`)
	require.Contains(t, seen, "1000.01")
	require.NotContains(t, seen, "olga")
	require.NotContains(t, seen, "bob")
}
