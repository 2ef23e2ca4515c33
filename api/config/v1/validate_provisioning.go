package configv1

// Barred reports whether the person cannot sign in: the account is disabled here, its SCIM client has deactivated it,
// or it has neither a role, which its groups give, nor a membership.
func (a *Account) Barred() bool {
	return a.GetDisabled() || a.GetProvisioning().GetInactive() ||
		a.GetRole() == Role_ROLE_UNSPECIFIED && len(a.GetMemberships()) == 0
}

// IsProvisionedBy reports whether the SCIM client of a provider may change the account: it provisions the account,
// which is of the provider's issuer.
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

func (v *validator) provisioning(a *Account) {
	p := a.GetProvisioning()
	if p == nil {
		return
	}
	v.label("provisioning.provider", p.GetProvider())
	v.id("provisioning.id", p.GetId())
	v.required("provisioning.user_name", p.GetUserName())
	v.text("provisioning.external_id", p.GetExternalId())
	if a.GetIdentity() == nil {
		v.fail("provisioning", "needs the identity of the person")
	}
	if a.GetBreakGlass() {
		v.fail("break_glass", "does not go with provisioning: an identity provider must not change an emergency account")
	}
	v.list("provisioning.groups", p.GetGroups(), v.id)
}

func (v *validator) identityGroup(g *IdentityGroup) {
	v.id("name", g.GetName())
	v.required("display_name", g.GetDisplayName())
	v.label("provider", g.GetProvider())
	v.text("external_id", g.GetExternalId())
	v.time("created_at", g.GetCreatedAt())
}
