package authz

import (
	"context"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// A Tenant is an organization, or a project in one. It restricts a principal. The zero value restricts nothing.
type Tenant struct{ Organization, Project string }

// noTenant is the tenant of principals without rights: nothing is of it.
var noTenant = Tenant{Organization: "/"}

// IsAll reports whether the tenant restricts nothing.
func (t Tenant) IsAll() bool { return t == Tenant{} }

// String returns the tenant as people write it.
func (t Tenant) String() string {
	if t.Project == "" {
		return t.Organization
	}
	return t.Organization + "/" + t.Project
}

// Has reports whether objects of this organization and project belong to the tenant.
func (t Tenant) Has(organization, project string) bool {
	return t.IsAll() || organization == t.Organization && (t.Project == "" || project == t.Project)
}

// TenantScopesOf returns what a role within a tenant may do there.
func TenantScopesOf(r configv1.Role) []Scope {
	read := []Scope{ConfigRead, KeysRead, UsageRead, JobsRead}
	switch r {
	case configv1.Role_ADMIN:
		return append(read, KeysWrite, ConfigWrite, JobsWrite, AdminsRead, AdminsWrite, AuditRead)
	case configv1.Role_MEMBER:
		return append(read, KeysWrite)
	case configv1.Role_VIEWER:
		return read
	}
	return nil
}

// membershipOf returns the membership under which an account acts: the one that is asked for, or else the first.
func membershipOf(a *configv1.Account, asked string) *configv1.Membership {
	all := a.GetMemberships()
	if asked == "" && len(all) > 0 {
		return all[0]
	}
	i := slices.IndexFunc(all, func(m *configv1.Membership) bool {
		return Tenant{m.GetOrganization(), m.GetProject()}.String() == asked
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// NotForTenant returns the error of a principal who asks for something outside their tenant.
func NotForTenant(t Tenant) error {
	return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: your rights are within %s.", t)
}

// TenantKind reports whether a scope for objects of a kind is of use within a tenant: they can be the tenant's. Its
// people read its organization but do not change it.
func TenantKind(kind configv1.Kind, scope Scope) bool {
	switch kind.New().(type) {
	case *configv1.Key, *configv1.Project, *configv1.Account:
		return true
	case *configv1.Organization:
		return scope == ReadScope(kind)
	}
	return false
}

// Sees reports whether an object, which may be nil, is the principal's to see.
func (p Principal) Sees(o configv1.Object) bool {
	if p.Tenant.IsAll() {
		return true
	}
	switch o := o.(type) {
	case *configv1.Key:
		return p.Tenant.Has(o.GetOrganization(), o.GetProject())
	case *configv1.Project:
		return p.Tenant.Has(SplitProject(o.GetName()))
	case *configv1.Organization:
		return p.Tenant == Tenant{Organization: o.GetName()}
	case *configv1.Account:
		return slices.ContainsFunc(o.GetMemberships(), p.HasMembership)
	}
	return false
}

// SplitProject returns the parts of the name of a Project.
func SplitProject(name string) (organization, project string) {
	organization, project, _ = strings.Cut(name, "/")
	return organization, project
}

// HasMembership reports whether a membership is within the tenant of the principal.
func (p Principal) HasMembership(m *configv1.Membership) bool {
	return p.Tenant.Has(m.GetOrganization(), m.GetProject())
}

// Shown returns an object without what is not the principal's to see of it.
func (p Principal) Shown(o configv1.Object) configv1.Object {
	a, ok := o.(*configv1.Account)
	if !ok || p.Tenant.IsAll() {
		return o
	}
	tenant := a.GetTenant()
	if !p.Tenant.Has(SplitProject(tenant)) {
		tenant = ""
	}
	return &configv1.Account{Name: a.GetName(), DisplayName: a.GetDisplayName(), Disabled: a.GetDisabled(),
		CreatedAt: a.GetCreatedAt(), PasswordHash: a.GetPasswordHash(), Identity: a.GetIdentity(),
		Tenant: tenant,
		Memberships: slices.DeleteFunc(slices.Clone(a.GetMemberships()), func(m *configv1.Membership) bool {
			return !p.HasMembership(m)
		})}
}

// SeesTenant reports whether the caller may see objects of this organization and project.
func SeesTenant(ctx context.Context, organization, project string) bool {
	p, _ := PrincipalOf(ctx)
	return p.Tenant.Has(organization, project)
}

// Within returns the tenants that see objects of this organization and project.
func Within(organization, project string) []Tenant {
	switch {
	case organization == "" || organization == noTenant.Organization:
		return nil
	case project == "":
		return []Tenant{{Organization: organization}}
	}
	return []Tenant{{Organization: organization}, {organization, project}}
}

// SeersOf returns the tenants whose people see an object, which may be nil, or a part of it.
func SeersOf(o configv1.Object) []Tenant {
	switch o := o.(type) {
	case *configv1.Key:
		return Within(o.GetOrganization(), o.GetProject())
	case *configv1.Project:
		return Within(SplitProject(o.GetName()))
	case *configv1.Organization:
		return Within(o.GetName(), "")
	case *configv1.Account:
		var all []Tenant
		for _, m := range o.GetMemberships() {
			all = append(all, Within(m.GetOrganization(), m.GetProject())...)
		}
		return all
	}
	return nil
}
