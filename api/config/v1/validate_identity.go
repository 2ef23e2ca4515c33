package configv1

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

const (
	maxMemberships  = 50
	defaultSignedIn = 12 * time.Hour
)

// Title returns what the provider is called on the page of sign-in.
func (p *IdentityProvider) Title() string { return cmp.Or(p.GetDisplayName(), p.GetName()) }

// NameFrom returns the claim that becomes the name of an account.
func (p *IdentityProvider) NameFrom() string { return cmp.Or(p.GetNameClaim(), "email") }

// GroupsFrom returns the claim with a person's groups.
func (p *IdentityProvider) GroupsFrom() string { return cmp.Or(p.GetGroupsClaim(), "groups") }

// SignedInFor returns the longest time from a sign-in to the next.
func (p *IdentityProvider) SignedInFor() time.Duration {
	return orDefault(p.GetSession(), defaultSignedIn)
}

// Roles returns the roles, from the lowest to the highest.
func Roles() []Role { return []Role{Role_VIEWER, Role_AUDITOR, Role_OPERATOR, Role_ADMIN, Role_OWNER} }

// RoleOf returns the highest role of somebody's groups, or ROLE_UNSPECIFIED.
func (p *IdentityProvider) RoleOf(groups []string) Role {
	role := p.GetDefaultRole()
	for _, r := range p.GetRoles() {
		if r.GetOrganization() == "" && slices.Contains(groups, r.GetGroup()) {
			role = higher(role, r.GetRole())
		}
	}
	return role
}

// GivesMemberships reports whether groups give memberships.
func (p *IdentityProvider) GivesMemberships() bool {
	return slices.ContainsFunc(p.GetRoles(), func(r *GroupRole) bool { return r.GetOrganization() != "" })
}

// MembershipsOf returns the memberships of somebody's groups: in each organization and project the highest role.
func (p *IdentityProvider) MembershipsOf(groups []string) []*Membership {
	var all []*Membership
	for _, r := range p.GetRoles() {
		if r.GetOrganization() == "" || !slices.Contains(groups, r.GetGroup()) {
			continue
		}
		i := slices.IndexFunc(all, func(m *Membership) bool {
			return m.GetOrganization() == r.GetOrganization() && m.GetProject() == r.GetProject()
		})
		switch {
		case i < 0 && len(all) < maxMemberships:
			all = append(all, &Membership{Organization: r.GetOrganization(), Project: r.GetProject(), Role: r.GetRole()})
		case i >= 0 && slices.Index(TenantRoles(), r.GetRole()) > slices.Index(TenantRoles(), all[i].GetRole()):
			all[i].Role = r.GetRole()
		}
	}
	return all
}

func higher(a, b Role) Role {
	if slices.Index(Roles(), b) > slices.Index(Roles(), a) {
		return b
	}
	return a
}

// Endpoint returns the endpoint of the issuer.
func (p *IdentityProvider) Endpoint() (Endpoint, error) { return ParseEndpoint(p.GetIssuer()) }

func (p *IdentityProvider) check(v *validator) {
	if p.GetDefaultRole() != Role_ROLE_UNSPECIFIED {
		v.role("default_role", p.GetDefaultRole())
	} else if len(p.GetRoles()) == 0 {
		v.fail("roles", "needs a group, or a default_role: otherwise nobody can sign in")
	}
}

func (r *GroupRole) check(v *validator) {
	switch {
	case r.GetOrganization() != "":
		v.tenantRole("role", r.GetRole())
	case r.GetProject() == "":
		v.role("role", r.GetRole())
	}
}

func (v *validator) role(field string, r Role) {
	if !slices.Contains(Roles(), r) {
		v.fail(field, "must be one of VIEWER, AUDITOR, OPERATOR, ADMIN and OWNER")
	}
}

// Barred reports whether the person cannot sign in: the account is disabled here, its SCIM client has deactivated it,
// or it has neither a role, which its groups give, nor a membership.
func (a *Account) Barred() bool {
	return a.GetDisabled() || a.GetProvisioning().GetInactive() ||
		a.GetRole() == Role_ROLE_UNSPECIFIED && len(a.GetMemberships()) == 0
}

// IsProvisionedBy reports whether the SCIM client of a provider may change the account: the provider has the
// account's issuer and provisions it.
func (a *Account) IsProvisionedBy(p *IdentityProvider) bool {
	return p != nil && a.GetProvisioning().GetProvider() == p.GetName() &&
		SameIssuer(a.GetIdentity().GetIssuer(), p.GetIssuer())
}

// RightsOfProvisioned returns the role and the memberships that the groups of an account give by the mapping of its
// provider, which may be nil. They count by their display names and by their external ids. If groups give no
// memberships, the account keeps its own.
func RightsOfProvisioned(p *IdentityProvider, groups map[string]*IdentityGroup, a *Account) (Role, []*Membership) {
	if !a.IsProvisionedBy(p) {
		return Role_ROLE_UNSPECIFIED, a.GetMemberships()
	}
	var called []string
	for _, name := range a.GetProvisioning().GetGroups() {
		if g := groups[name]; g.GetProvider() == p.GetName() {
			called = append(called, g.GetDisplayName(), g.GetExternalId())
		}
	}
	if !p.GivesMemberships() {
		return p.RoleOf(called), a.GetMemberships()
	}
	return p.RoleOf(called), p.MembershipsOf(called)
}

// UserFrom returns the claim that names the user.
func (t *TokenIssuer) UserFrom() string { return cmp.Or(t.GetUserClaim(), "sub") }

func (t *TokenIssuer) check(v *validator) {
	if t.GetJwks() == "" {
		return
	}
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal([]byte(t.GetJwks()), &set); err != nil || len(set.Keys) == 0 {
		v.fail("jwks", "must be a JSON Web Key Set, such as what kubectl get --raw /openid/v1/jwks prints")
	}
	for _, k := range set.Keys {
		if k["d"] != nil || k["k"] != nil {
			v.fail("jwks", "has a key that is not public")
		}
	}
	if t.GetJwksUrl() != "" {
		v.fail("jwks", "has no meaning with a jwks_url")
	}
}

func (b *TokenBinding) check(v *validator) {
	for name, value := range b.GetClaims() {
		for _, s := range []struct{ field, text string }{{"claims", name}, {"claims." + name, value}} {
			if wrong := shortText(s.text); wrong != "" {
				v.fail(s.field, "%s", wrong)
			}
		}
		if name == "" || strings.Trim(value, "*") == "" {
			v.fail("claims", "needs a name and a value for each")
		}
	}
}

// GatewayName returns the name of the gateway whose clients may present the certificates.
func (c *CertificateIssuer) GatewayName() string { return cmp.Or(c.GetGateway(), "default") }

func (c *CertificateIssuer) check(v *validator) {
	if c.GetCrl() == "" {
		return
	}
	wrong := pemBlocks(c.GetCrl(), "certificate revocation list", "X509 CRL", func(der []byte) error {
		_, err := x509.ParseRevocationList(der)
		return err
	})
	if wrong != "" {
		v.fail("crl", "%s", wrong)
	}
}
