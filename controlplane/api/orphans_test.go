package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Whoever signs in through a provider that is deleted has left: nobody would say so later. It does not matter whether
// they have a role or memberships, and whether a directory has made the account.
func TestPeopleEndWithTheirIdentityProvider(t *testing.T) {
	at := func(subject string) *configv1.Identity { return &configv1.Identity{Issuer: issuer, Subject: subject} }
	for name, c := range map[string]struct {
		account *configv1.Account
		another bool // there is another provider of the issuer
		ends    bool
	}{
		"a role":       {&configv1.Account{Role: configv1.Role_OPERATOR, Identity: at("s")}, false, true},
		"a membership": {&configv1.Account{Memberships: memberOf("", "own").Memberships, Identity: at("s")}, false, true},
		"of a directory": {&configv1.Account{Memberships: memberOf("", "own").Memberships, Identity: at(""),
			Provisioning: &configv1.Provisioning{Provider: "corp", Id: "u1", UserName: "pat"}}, false, true},
		"another provider": {&configv1.Account{Role: configv1.Role_OPERATOR, Identity: at("s")}, true, false},
		"a password": {&configv1.Account{Role: configv1.Role_OPERATOR, Identity: at("s"),
			PasswordHash: "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b/dWRWJTmaaJObG"}, false, false},
		"prepared":  {&configv1.Account{Role: configv1.Role_OPERATOR, Identity: at("")}, false, false},
		"emergency": {&configv1.Account{Role: configv1.Role_OPERATOR, Identity: at("s"), BreakGlass: true}, false, false},
		"another issuer": {&configv1.Account{Role: configv1.Role_OPERATOR,
			Identity: &configv1.Identity{Issuer: "https://elsewhere.example", Subject: "s"}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, ask := tenanted(t)
			provider := func(name string) string {
				return `{"name":"` + name + `","issuer":"` + issuer + `","client_id":"c","roles":[{"group":"g","role":"VIEWER"}]}`
			}
			require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/identityproviders/corp", provider("corp")).status)
			if c.another {
				require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/identityproviders/two", provider("two")).status)
			}
			c.account.Name = "pat"
			b.people(t, c.account)
			l := &leaver{bench: b, ask: ask, name: "pat"}
			key := l.make(t, "pat")
			require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/identityproviders/corp", "").status)
			require.Equal(t, c.ends, l.account(t, "pat").Barred())
			require.Equal(t, c.ends, l.stored(t, key).GetDisabled())
		})
	}
}
