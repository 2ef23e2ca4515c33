package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

func within(name string, role configv1.Role, organizations ...string) *configv1.Account {
	a := &configv1.Account{Name: name}
	for _, o := range organizations {
		a.Memberships = append(a.Memberships, &configv1.Membership{Organization: o, Role: role})
	}
	return a
}

func adminOf(organizations ...string) *configv1.Account {
	return within("admin", configv1.Role_ADMIN, organizations...)
}

func memberOf(name string, organizations ...string) *configv1.Account {
	return within(name, configv1.Role_MEMBER, organizations...)
}

// people stores accounts, which the audit log does not say.
func (b *bench) people(t *testing.T, all ...*configv1.Account) {
	t.Helper()
	for _, a := range all {
		_, err := b.store.Put(t.Context(), a, 0)
		require.NoError(t, err)
	}
}

// A leaver is somebody of the organization own who has a key and leaves.
type leaver struct {
	*bench
	ask   asker
	scim  *client
	name  string
	user  string // id in SCIM
	key   string
	token adminapi.NewToken
}

// newLeaver makes an account that a directory provisions, which has a role, a key, and a token.
func newLeaver(t *testing.T, organization string) *leaver {
	t.Helper()
	b, ask := tenanted(t)
	l := &leaver{bench: b, ask: ask, scim: b.provisioned(t, "corp", issuer), name: "pat@corp.example"}
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/organizations/own", `{"name":"own"`+organization+`}`).status)
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/accounts/heir", `{"name":"heir","role":"OPERATOR"}`).status)
	l.user = l.scim.make(t, "Users", `{"userName":"`+l.name+`","active":true}`)
	l.scim.make(t, "Groups", `{"displayName":"ops","members":[{"value":"`+l.user+`"}]}`)
	l.key = l.make(t, l.name)
	l.token = b.makeToken(t, `{"display_name":"t","scopes":["config:read","keys:write"]}`)
	b.setOwner(t, l.token.ID, l.name)
	return l
}

func (l *leaver) as(t *testing.T, name string) authz.Principal {
	return authz.PrincipalOfAccount(l.account(t, name), "", "")
}

// make makes a key as somebody.
func (l *leaver) make(t *testing.T, name string) string {
	t.Helper()
	made := l.ask(l.as(t, name), "POST", "/admin/v1/keys", `{"display_name":"k","organization":"own"}`)
	require.Equal(t, 201, made.status, made.body)
	return gjson.Get(made.body, "id").Str
}

func (l *leaver) stored(t *testing.T, key string) *configv1.Key {
	t.Helper()
	e, err := l.store.Get(t.Context(), configv1.KeyKind(), key)
	require.NoError(t, err)
	return e.Object.(*configv1.Key)
}

func (l *leaver) mayRead(t *testing.T) int {
	t.Helper()
	return l.do(t, "GET", "/admin/v1/providers", "", as(l.token.Token)).status
}

// departures are the ways in which somebody leaves, or loses their rights.
func departures() map[string]func(*testing.T, *leaver) answer {
	return map[string]func(*testing.T, *leaver) answer{
		"disabled":      func(t *testing.T, l *leaver) answer { return l.rewrite(t, `"name"`, `"disabled":true,"name"`) },
		"deleted":       func(t *testing.T, l *leaver) answer { return l.do(t, "DELETE", "/admin/v1/accounts/"+l.name, "") },
		"applied":       func(t *testing.T, l *leaver) answer { return l.apply(t) },
		"inactive":      func(t *testing.T, l *leaver) answer { return l.active(t, "false") },
		"deleted there": func(t *testing.T, l *leaver) answer { return l.scim.do(t, "DELETE", "Users/"+l.user, "") },
		"out of the group": func(t *testing.T, l *leaver) answer {
			return l.scim.do(t, "DELETE", "Groups/"+gjson.Get(l.scim.do(t, "GET", "Groups", "").body, "Resources.0.id").Str, "")
		},
		"another mapping": func(t *testing.T, l *leaver) answer {
			return l.do(t, "PUT", "/admin/v1/identityproviders/corp", `{"name":"corp","issuer":"`+issuer+
				`","client_id":"c","roles":[{"group":"ops","role":"AUDITOR"}]}`)
		},
		"the provider is deleted": func(t *testing.T, l *leaver) answer {
			tokens := gjson.Get(l.do(t, "GET", "/admin/v1/admintokens", "").body, "items")
			scim := tokens.Get(`#(identity_provider=="corp").name`).Str
			require.Equal(t, 204, l.do(t, "DELETE", "/admin/v1/admintokens/"+scim, "").status, tokens)
			return l.do(t, "DELETE", "/admin/v1/identityproviders/corp", "")
		},
		"the provider has another issuer": func(t *testing.T, l *leaver) answer {
			return l.do(t, "PUT", "/admin/v1/identityproviders/corp", `{"name":"corp","issuer":"https://other.example",`+
				`"client_id":"c","roles":[{"group":"ops","role":"OPERATOR"}]}`)
		},
		"renamed and inactive": func(t *testing.T, l *leaver) answer {
			l.scim.do(t, "PUT", "Users/"+l.user, `{"userName":"new@corp.example","active":true}`)
			require.Equal(t, "new@corp.example", l.stored(t, l.key).GetOwner(), "the key goes with the name")
			require.False(t, l.stored(t, l.key).GetDisabled())
			return l.scim.do(t, "PUT", "Users/"+l.user, `{"userName":"third@corp.example","active":false}`)
		},
	}
}

func (l *leaver) rewrite(t *testing.T, old, now string) answer {
	t.Helper()
	shown := l.do(t, "GET", "/admin/v1/accounts/"+l.name, "").body
	return l.do(t, "PUT", "/admin/v1/accounts/"+l.name, strings.Replace(shown, old, now, 1))
}

func (l *leaver) apply(t *testing.T) answer {
	t.Helper()
	shown := l.do(t, "GET", "/admin/v1/accounts/"+l.name, "").body
	return l.do(t, "POST", "/admin/v1/apply", `[`+strings.Replace(shown, `{`, `{"disabled":true,`, 1)+`]`)
}

func (l *leaver) active(t *testing.T, is string) answer {
	t.Helper()
	return l.scim.do(t, "PATCH", "Users/"+l.user, patch(`{"op":"replace","path":"active","value":`+is+`}`))
}

func TestKeysAndTokensEndWithTheirMaker(t *testing.T) {
	for how, leave := range departures() {
		t.Run(how, func(t *testing.T) {
			l := newLeaver(t, "")
			mine := l.make(t, "heir")
			require.Equal(t, 200, l.mayRead(t))
			a := leave(t, l)
			require.Less(t, a.status, 300, a.body)
			k := l.stored(t, l.key)
			require.True(t, k.GetDisabled(), k)
			require.Contains(t, k.GetLeft().GetAccount(), "@corp.example")
			require.NotNil(t, k.GetLeft().GetAt())
			require.False(t, l.stored(t, mine).GetDisabled(), "keys of others stay")
			if how == "another mapping" {
				require.Equal(t, 200, l.mayRead(t), "an auditor reads")
				require.Equal(t, 403, l.do(t, "POST", "/admin/v1/keys", `{"display_name":"k"}`, as(l.token.Token)).status)
			} else {
				require.Equal(t, 401, l.mayRead(t))
			}
			said := false
			for _, e := range l.audited(t, adminapi.ListOptions{}) {
				said = said || e.Kind == "Account" && strings.Contains(e.Diff, "the key "+l.key+" is disabled") &&
					(how == "renamed and inactive" || strings.Contains(e.Diff, "the token "+l.token.ID))
			}
			require.True(t, said, "the audit log says it of the account")
			l.plane.keys = func() (int64, map[string]configv1.Object) {
				return 1, map[string]configv1.Object{k.GetName(): k}
			}
			attentive := l.do(t, "GET", "/admin/v1/attention", "").body
			require.Equal(t, []string{"keys_of_leaver", "tokens_of_leaver"}[:2-len(l.gone(t))], kindsOf(attentive))
			require.Contains(t, attentive, "disabled: "+k.GetName())
		})
	}
}

// gone returns the token if it is deleted.
func (l *leaver) gone(t *testing.T) []string {
	t.Helper()
	if l.do(t, "GET", "/admin/v1/admintokens/"+l.token.ID, "").status == 404 {
		return []string{l.token.ID}
	}
	return nil
}

func kindsOf(attentive string) (kinds []string) {
	for _, k := range gjson.Get(attentive, "items.#.kind").Array() {
		kinds = append(kinds, k.Str)
	}
	return kinds
}

func TestKeysOfLeaversAreKeptOrHandedOver(t *testing.T) {
	for setting, want := range map[string]string{`,"keys_of_leavers":"KEEP"`: "pat@corp.example",
		`,"successor":"heir"`: "heir"} {
		l := newLeaver(t, setting)
		require.Equal(t, 200, l.active(t, "false").status)
		k := l.stored(t, l.key)
		require.False(t, k.GetDisabled(), setting)
		require.Equal(t, want, k.GetOwner())
		require.Equal(t, l.name, k.GetLeft().GetAccount())
		require.Equal(t, 204, l.scim.do(t, "DELETE", "Users/"+l.user, "").status)
		require.False(t, l.stored(t, l.key).GetDisabled(), setting)
		require.NotEqual(t, l.name, l.stored(t, l.key).GetOwner(), "it is not of the next account of the name")
		if want == "heir" {
			require.Equal(t, 204, l.do(t, "DELETE", "/admin/v1/accounts/heir", "").status)
			require.True(t, l.stored(t, l.key).GetDisabled(), "the successor leaves, too, and has none")
		}
	}
	l := newLeaver(t, `,"successor":"nobody"`)
	require.Equal(t, 200, l.active(t, "false").status)
	require.True(t, l.stored(t, l.key).GetDisabled(), "there is no such successor")
}

func TestWhatComesBackWithSomebody(t *testing.T) {
	l := newLeaver(t, "")
	require.Equal(t, 200, l.active(t, "false").status)
	require.Equal(t, 201, l.do(t, "PUT", "/admin/v1/approvalrules/all", `{"name":"all","keys":true}`).status)
	require.Equal(t, 200, l.active(t, "true").status)
	require.False(t, l.stored(t, l.key).GetDisabled(), "it was approved before")
	require.Equal(t, 204, l.do(t, "DELETE", "/admin/v1/approvalrules/all", "").status)
	byHand := l.make(t, l.name)
	require.Equal(t, 200, l.do(t, "PUT", "/admin/v1/keys/"+byHand,
		`{"name":"`+byHand+`","display_name":"k","organization":"own","disabled":true}`).status)
	require.Equal(t, 200, l.active(t, "false").status)
	before := authz.Principal{Name: l.name, Role: "operator", Scopes: authz.ScopesOf(configv1.Role_OPERATOR)}
	require.Equal(t, 403, l.ask(before, "POST", "/admin/v1/keys", `{"display_name":"k","organization":"own"}`).status, "a request that was under way")
	require.Equal(t, 200, l.active(t, "true").status)
	require.False(t, l.stored(t, l.key).GetDisabled())
	require.Nil(t, l.stored(t, l.key).GetLeft())
	require.True(t, l.stored(t, byHand).GetDisabled())
	require.Equal(t, 200, l.mayRead(t))

	// Whoever enables a key of somebody who has left takes it over.
	require.Equal(t, 200, l.active(t, "false").status)
	enabled := fmt.Sprintf(`{"name":%q,"display_name":"k","organization":"own"}`, l.key)
	require.Equal(t, 200, l.ask(l.as(t, "heir"), "PUT", "/admin/v1/keys/"+l.key, enabled).status)
	require.Equal(t, "heir", l.stored(t, l.key).GetOwner())
	require.Nil(t, l.stored(t, l.key).GetLeft())
	require.Equal(t, 200, l.active(t, "true").status)
	require.Equal(t, "heir", l.stored(t, l.key).GetOwner())

	// Another account of the name gets nothing.
	last := l.make(t, l.name)
	require.Equal(t, 204, l.scim.do(t, "DELETE", "Users/"+l.user, "").status)
	l.user = l.scim.make(t, "Users", `{"userName":"`+l.name+`","active":true}`)
	l.scim.make(t, "Groups", `{"displayName":"ops ","externalId":"id-of-admins","members":[{"value":"`+l.user+`"}]}`)
	require.True(t, l.stored(t, last).GetDisabled())
	require.Empty(t, l.stored(t, last).GetOwner())
	require.Equal(t, 401, l.mayRead(t))
}

// TestARightToKeysIsAScope fails for a role that may make keys here and not there.
func TestARightToKeysIsAScope(t *testing.T) {
	k := &configv1.Key{Organization: "own", Project: "a"}
	for n := range configv1.Role_name {
		role := configv1.Role(n)
		p := authz.Principal{Scopes: authz.ScopesOf(role)}
		require.Equal(t, p.May(authz.KeysWrite), accounts.MayOwn(&configv1.Account{Role: role}, k), role)
		p.Scopes = authz.TenantScopesOf(role)
		if len(p.Scopes) > 0 {
			require.Equal(t, p.May(authz.KeysWrite), accounts.MayOwn(within("a", role, "own"), k), role)
			require.False(t, accounts.MayOwn(within("a", role, "other"), k))
		}
	}
}

func TestAChangeOfSomebodyWhoIsDemotedIsNotApproved(t *testing.T) {
	s := newSupervised(t, above1000+`,"keys":true`)
	id := gjson.Get(s.ask(t, "max", "POST", "/keys", `{"display_name":"k","organization":"acme"}`).body, "approval.id").Str
	require.NotEmpty(t, id)
	require.Equal(t, 200, s.do(t, "PUT", "/admin/v1/accounts/max",
		`{"name":"max","memberships":[{"organization":"acme","role":"VIEWER"}]}`).status)
	requireError(t, s.approve(t, "bob", id), 409, "approval_void", "has lost the right")
}

func TestSomebodyCanBeDeletedWhereEtcdIsFull(t *testing.T) {
	b := newBenchOn(t, etcdtest.WithQuota(t, 4<<20))
	b.people(t, &configv1.Account{Name: "ann", Role: configv1.Role_OPERATOR})
	k := &configv1.Key{Name: "key_a", DisplayName: "k", Owner: "ann", Hash: make([]byte, 32)}
	_, err := b.store.Put(t.Context(), k, 0)
	require.NoError(t, err)
	b.fill(t)
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/accounts/ann", "").status)
	e, err := b.store.Get(t.Context(), configv1.KeyKind(), "key_a")
	require.NoError(t, err)
	require.False(t, e.Object.(*configv1.Key).GetDisabled(), "what needs attention names it")
	for _, e := range b.ledger.entries {
		require.Contains(t, e.Diff, "the key key_a is left as it is, because etcd is full")
	}
	require.Len(t, b.ledger.entries, 1)
}
