package configv1

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/config/options"
)

const (
	minPassword = 12  // characters
	maxPassword = 512 // bytes
	maxAccount  = 128
)

var (
	accountPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._%+@-]*$`)
	argonPattern   = regexp.MustCompile(
		`^\$argon2id\$v=[0-9]+\$m=[0-9]+,t=[0-9]+,p=[0-9]+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+$`)
)

// Scopes returns the scopes of an AdminToken.
func Scopes() []string {
	return []string{
		"config:read", "config:write", "keys:read", "keys:write", "usage:read", "jobs:read", "jobs:write",
		"audit:read", "status:read", "admins:read", "admins:write", "playground", "bodies:read", "bodies:delete",
		"scim", "*",
	}
}

func (a *Account) check(v *validator) {
	if name, err := AccountName(a.GetName()); err != nil {
		v.fail("name", "%s", err)
	} else if name != a.GetName() {
		v.fail("name", "must be in lower case: %s", name)
	}
	if a.GetRole() != Role_ROLE_UNSPECIFIED || len(a.GetMemberships()) == 0 && a.GetProvisioning() == nil &&
		a.GetIdentity() == nil { // groups may give a person of an issuer no rights
		v.role("role", a.GetRole())
	}
	if a.GetProvisioning() != nil && a.GetIdentity() == nil {
		v.fail("provisioning", "needs the identity of the person")
	}
	if a.GetProvisioning() != nil && a.GetBreakGlass() {
		v.fail("break_glass", "does not go with provisioning: an identity provider must not change an emergency account")
	}
	of := make([]string, 0, len(a.GetMemberships()))
	for _, m := range a.GetMemberships() {
		of = append(of, m.GetOrganization()+"/"+m.GetProject())
	}
	v.distinct("memberships", of)
	switch p := a.GetPassword(); {
	case p == "":
	case len([]rune(p)) < minPassword:
		v.fail("password", "must have at least %d characters", minPassword)
	case len(p) > maxPassword:
		v.fail("password", "must have at most %d bytes", maxPassword)
	case a.GetPasswordHash() != "":
		v.fail("password", "cannot be given together with password_hash")
	}
	if h := a.GetPasswordHash(); h != "" && (len(h) > maxText || !argonPattern.MatchString(h)) {
		v.fail("password_hash", "must be an argon2id hash; leave it out, and give the password")
	}
}

// TenantRoles returns the roles within an organization or a project, from the lowest to the highest.
func TenantRoles() []Role { return []Role{Role_VIEWER, Role_MEMBER, Role_ADMIN} }

func (m *Membership) check(v *validator) { v.tenantRole("role", m.GetRole()) }

func (v *validator) tenantRole(field string, r Role) {
	if !slices.Contains(TenantRoles(), r) {
		v.fail(field, "must be one of VIEWER, MEMBER and ADMIN")
	}
}

// TenantScopes returns the scopes that a token can have that is restricted to an organization or a project.
func TenantScopes() []string {
	return []string{"config:read", "config:write", "keys:read", "keys:write", "usage:read", "jobs:read", "jobs:write",
		"admins:read", "admins:write", "audit:read"}
}

func (t *AdminToken) check(v *validator) {
	for i, s := range t.GetScopes() {
		if t.GetOrganization() != "" && !slices.Contains(TenantScopes(), s) {
			v.fail(element("scopes", i), "cannot be restricted to an organization; the scopes that can are %s",
				listing(TenantScopes()))
		}
		if !slices.Contains(Scopes(), s) {
			v.fail(element("scopes", i), "must be one of %s", listing(Scopes()))
		}
	}
	if len(t.GetScopes()) == 0 {
		v.fail("scopes", "needs at least one of %s", listing(Scopes()))
	}
	switch scim := slices.Contains(t.GetScopes(), "scim"); {
	case scim && len(t.GetScopes()) > 1:
		v.fail("scopes", "scim stands alone: the client of an identity provider may do nothing else")
	case scim:
		v.form("identity_provider", options.Form_LABEL, t.GetIdentityProvider())
	case t.GetIdentityProvider() != "":
		v.fail("identity_provider", "goes with the scope scim")
	}
}

// storedSecrets checks that an object has its hashes, and no password in clear text.
func (v *validator) storedSecrets(o Object) {
	switch o := o.(type) {
	case *Key:
		if len(o.GetHash()) == 0 {
			v.fail("hash", "missing; keys are made with the admin API's POST /admin/v1/keys")
		}
	case *AdminToken:
		if len(o.GetHash()) == 0 {
			v.fail("hash", "missing; tokens are made by the admin API")
		}
	case *Account:
		if o.GetPassword() != "" {
			v.fail("password", "must be hashed before it is stored")
		}
	}
}

// Fold returns a text in the form that is compared if case does not count: ASCII letters become lower case, and
// nothing else changes. Folding by Unicode would make two names equal: the Kelvin sign becomes a k, and a dotted İ
// an i.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// AccountName returns the name under which an account is stored, of a name as a person types it or a directory or an
// identity provider writes it. A name that has anything but ASCII is refused, never mapped to another.
func AccountName(written string) (string, error) {
	name := Fold(written)
	if len(name) > maxAccount || !accountPattern.MatchString(name) {
		return "", fmt.Errorf("must be 1 to %d letters of ASCII, digits and ._%%+@-, such as an address of e-mail", maxAccount)
	}
	return name, nil
}

// SameIssuer reports whether two addresses name the same issuer. The case of the host and a slash at the end do
// not count.
func SameIssuer(a, b string) bool {
	return a == b || a != "" && b != "" && plainIssuer(a) == plainIssuer(b)
}

func plainIssuer(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	u.Scheme, u.Host = Fold(u.Scheme), Fold(u.Host)
	return strings.TrimSuffix(u.String(), "/")
}
