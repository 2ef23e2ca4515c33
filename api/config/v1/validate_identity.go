package configv1

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxClaim        = 256
	maxRoles        = 200
	defaultSignedIn = 12 * time.Hour
	minSignedIn     = 5 * time.Minute
	maxSignedIn     = 7 * 24 * time.Hour
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

func (v *validator) identityProvider(p *IdentityProvider) {
	v.label("name", p.GetName())
	v.text("display_name", p.GetDisplayName())
	v.issuer("issuer", p.GetIssuer())
	v.required("client_id", p.GetClientId())
	if p.GetClientSecret() != nil {
		v.credential("client_secret", p.GetClientSecret())
	}
	v.list("scopes", p.GetScopes(), func(field, s string) {
		if s == "" || len(s) > maxClaim || strings.ContainsFunc(s, notInScope) {
			v.fail(field, "must be a scope of OAuth, such as groups")
		}
	})
	v.text("name_claim", p.GetNameClaim())
	v.text("groups_claim", p.GetGroupsClaim())
	if len(p.GetRoles()) > maxRoles {
		v.fail("roles", "must be at most %d", maxRoles)
	}
	for i, r := range p.GetRoles() {
		v.groupRole(element("roles", i), r)
	}
	if p.GetDefaultRole() != Role_ROLE_UNSPECIFIED {
		v.role("default_role", p.GetDefaultRole())
	} else if len(p.GetRoles()) == 0 {
		v.fail("roles", "needs a group, or a default_role: otherwise nobody can sign in")
	}
	d := p.SignedInFor()
	if p.GetSession() != nil && (p.GetSession().CheckValid() != nil || d < minSignedIn || d > maxSignedIn) {
		v.fail("session", "must be between %gs and %gs", minSignedIn.Seconds(), maxSignedIn.Seconds())
	}
	if p.GetCa() != "" {
		v.pemCertificates("ca", p.GetCa())
	}
}

func (v *validator) groupRole(at string, r *GroupRole) {
	v.required(at+".group", r.GetGroup())
	v.optionalID(at+".organization", r.GetOrganization())
	v.optionalID(at+".project", r.GetProject())
	switch {
	case r.GetOrganization() != "":
		v.tenantRole(at+".role", r.GetRole())
	case r.GetProject() != "":
		v.fail(at+".project", "needs an organization")
	default:
		v.role(at+".role", r.GetRole())
	}
}

// notInScope reports whether a scope cannot have a character (RFC 6749, section 3.3).
func notInScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// issuer accepts what an issuer may be (OpenID Connect Discovery, section 3), and http on a loopback address.
func (v *validator) issuer(field, s string) {
	u, err := url.Parse(s)
	local := err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && !local, len(s) > maxURL:
		v.fail(field, "must be a URL that begins with https://, as the issuer's tokens have it")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		v.fail(field, "must have no user, query or fragment")
	}
}

func (v *validator) role(field string, r Role) {
	if !slices.Contains(Roles(), r) {
		v.fail(field, "must be one of VIEWER, AUDITOR, OPERATOR, ADMIN and OWNER")
	}
}
