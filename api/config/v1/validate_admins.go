package configv1

import (
	"regexp"
	"slices"
)

const (
	minPassword = 12  // characters
	maxPassword = 512 // bytes
	maxAccount  = 128

	maxMemberships = 50
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

func (v *validator) account(a *Account) {
	if name, err := AccountName(a.GetName()); err != nil {
		v.fail("name", "%s", err)
	} else if name != a.GetName() {
		v.fail("name", "must be in lower case: %s", name)
	}
	v.text("display_name", a.GetDisplayName())
	if a.GetRole() != Role_ROLE_UNSPECIFIED || len(a.GetMemberships()) == 0 && a.GetProvisioning() == nil &&
		a.GetIdentity() == nil { // groups may give a person of an issuer no rights
		v.role("role", a.GetRole())
	}
	v.provisioning(a)
	v.memberships(a.GetMemberships())
	if id := a.GetIdentity(); id != nil {
		v.issuer("identity.issuer", id.GetIssuer())
		v.text("identity.subject", id.GetSubject())
	}
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
	v.time("created_at", a.GetCreatedAt())
}

// TenantRoles returns the roles within an organization or a project, from the lowest to the highest.
func TenantRoles() []Role { return []Role{Role_VIEWER, Role_MEMBER, Role_ADMIN} }

func (v *validator) memberships(all []*Membership) {
	if len(all) > maxMemberships {
		v.fail("memberships", "must be at most %d", maxMemberships)
	}
	names := make([]string, 0, len(all))
	for i, m := range all {
		at := element("memberships", i)
		v.id(at+".organization", m.GetOrganization())
		v.optionalID(at+".project", m.GetProject())
		v.tenantRole(at+".role", m.GetRole())
		names = append(names, m.GetOrganization()+"/"+m.GetProject())
	}
	v.distinct("memberships", names)
}

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

func (v *validator) adminToken(t *AdminToken) {
	v.optionalID("organization", t.GetOrganization())
	v.optionalID("project", t.GetProject())
	switch {
	case t.GetProject() != "" && t.GetOrganization() == "":
		v.fail("project", "needs an organization")
	case t.GetOrganization() != "":
		v.list("scopes", t.GetScopes(), func(field, s string) {
			if !slices.Contains(TenantScopes(), s) {
				v.fail(field, "cannot be restricted to an organization; the scopes that can are %s", listing(TenantScopes()))
			}
		})
	}
	v.id("name", t.GetName())
	v.text("display_name", t.GetDisplayName())
	v.hash("hash", t.GetHash())
	v.hint("hint", t.GetHint())
	if len(t.GetScopes()) == 0 {
		v.fail("scopes", "needs at least one of %s", listing(Scopes()))
	}
	v.list("scopes", t.GetScopes(), func(field, s string) {
		if !slices.Contains(Scopes(), s) {
			v.fail(field, "must be one of %s", listing(Scopes()))
		}
	})
	switch scim := slices.Contains(t.GetScopes(), "scim"); {
	case scim && len(t.GetScopes()) > 1:
		v.fail("scopes", "scim stands alone: the client of an identity provider may do nothing else")
	case scim:
		v.label("identity_provider", t.GetIdentityProvider())
	case t.GetIdentityProvider() != "":
		v.fail("identity_provider", "goes with the scope scim")
	}
	v.time("expires_at", t.GetExpiresAt())
	v.time("created_at", t.GetCreatedAt())
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
