package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// maxTenantKeys is how many keys an organization can have if its people make them, in all its projects: who may make
	// projects and their admins has no more room by that. A member alone can make maxOwnKeys.
	maxTenantKeys = 10_000
	maxOwnKeys    = 50
	// maxTenantProjects and maxTenantAccounts are the same for projects and accounts.
	maxTenantProjects = 1000
	maxTenantAccounts = 10_000
)

// A Tenant is an organization, or a project of one, to which a principal is restricted. The zero value restricts
// nothing.
type Tenant struct{ Organization, Project string }

// nobodys is the tenant of principals without rights: nothing is of it.
var nobodys = Tenant{Organization: "/"}

// IsAll reports whether the tenant restricts nothing.
func (t Tenant) IsAll() bool { return t == Tenant{} }

// String returns the tenant as people write it.
func (t Tenant) String() string {
	if t.Project == "" {
		return t.Organization
	}
	return t.Organization + "/" + t.Project
}

// Has reports whether what is of an organization, and of a project of it, is of the tenant.
func (t Tenant) Has(organization, project string) bool {
	return t.IsAll() || organization == t.Organization && (t.Project == "" || project == t.Project)
}

func (t Tenant) restriction() ledger.Restriction {
	return ledger.Restriction{Organization: t.Organization, Project: t.Project}
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

// tenantRule is what a route does for a principal who is restricted to a tenant.
type tenantRule uint8

const (
	closed  tenantRule = iota // it is not for them
	queried                   // the query is restricted to the tenant
	checked                   // the handler looks whether what it is about is of the tenant
)

// within returns the request of a principal who is restricted to a tenant, as a route allows it.
func (t tenantRule) within(r *http.Request, p Principal) (*http.Request, error) {
	switch {
	case p.Tenant.IsAll() || t == checked:
		return r, nil
	case t == closed:
		return nil, notForTenant(p.Tenant)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badQuery(err)
	}
	for name, own := range map[string]string{"organization": p.Tenant.Organization, "project": p.Tenant.Project} {
		for given, values := range query {
			is := given == name || strings.HasPrefix(given, name+"[") // lists are also written name[]
			if own != "" && is && (given != name || slices.ContainsFunc(values, func(v string) bool { return v != own })) {
				return nil, notForTenant(p.Tenant)
			}
		}
		if own != "" {
			query.Set(name, own)
		}
	}
	restricted := r.Clone(r.Context())
	restricted.URL.RawQuery = query.Encode()
	return restricted, nil
}

func notForTenant(t Tenant) error {
	return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: your rights are within %s.", t)
}

// tenantKind reports whether a scope for objects of a kind is of use within a tenant: they can be the tenant's. Its
// people read its organization but do not change it.
func tenantKind(kind configv1.Kind, scope Scope) bool {
	switch kind.New().(type) {
	case *configv1.Key, *configv1.Project, *configv1.Account:
		return true
	case *configv1.Organization:
		return scope == ReadScope(kind)
	}
	return false
}

// sees reports whether an object, which may be nil, is the principal's to see.
func (p Principal) sees(o configv1.Object) bool {
	if p.Tenant.IsAll() {
		return true
	}
	switch o := o.(type) {
	case *configv1.Key:
		return p.Tenant.Has(o.GetOrganization(), o.GetProject())
	case *configv1.Project:
		return p.Tenant.Has(splitProject(o.GetName()))
	case *configv1.Organization:
		return p.Tenant == Tenant{Organization: o.GetName()}
	case *configv1.Account:
		return slices.ContainsFunc(o.GetMemberships(), p.hasMembership)
	}
	return false
}

func splitProject(name string) (organization, project string) {
	organization, project, _ = strings.Cut(name, "/")
	return organization, project
}

func (p Principal) hasMembership(m *configv1.Membership) bool {
	return p.Tenant.Has(m.GetOrganization(), m.GetProject())
}

// shown returns an object without what is not the principal's to see of it.
func (p Principal) shown(o configv1.Object) configv1.Object {
	a, ok := o.(*configv1.Account)
	if !ok || p.Tenant.IsAll() {
		return o
	}
	tenant := a.GetTenant()
	if !p.Tenant.Has(splitProject(tenant)) {
		tenant = ""
	}
	return &configv1.Account{Name: a.GetName(), DisplayName: a.GetDisplayName(), Disabled: a.GetDisabled(),
		CreatedAt: a.GetCreatedAt(), PasswordHash: a.GetPasswordHash(), Identity: a.GetIdentity(),
		Tenant: tenant,
		Memberships: slices.DeleteFunc(slices.Clone(a.GetMemberships()), func(m *configv1.Membership) bool {
			return !p.hasMembership(m)
		})}
}

// visible returns an object as it is stored; nil where there is none, or the caller may not see it.
func (p *plan) visible(of ref) *configstore.Entry {
	if e := p.before.Find(of.kind, of.name); e != nil && p.caller.sees(e.Object) {
		return e
	}
	return nil
}

// mayTouch returns the error of a principal who is restricted to a tenant and would change what is not theirs. Either
// object may be nil. What they may not see looks as if it were not there.
func (p *plan) mayTouch(kind configv1.Kind, name string, object, stored configv1.Object) error {
	c := p.caller
	if c.Tenant.IsAll() || c.As == accounts.Person { // who changes a password is asked for the present one
		return nil
	}
	if p.before.Find(kind, name) != nil && !c.sees(stored) {
		if object != nil { // a name that somebody else has
			return notForTenant(c.Tenant)
		}
		return fmt.Errorf("%s %s: %w", kind.Name, name, configstore.ErrNotFound)
	}
	if object != nil && !c.sees(object) {
		return notForTenant(c.Tenant)
	}
	switch kind.New().(type) {
	case *configv1.Key:
		return p.mayTouchKey(asKey(object), asKey(stored))
	case *configv1.Project:
		return p.mayTouchProject(object, stored)
	case *configv1.Account:
		return p.mayTouchAccount(object, stored)
	}
	return notForTenant(c.Tenant)
}

func asKey(o configv1.Object) *configv1.Key {
	k, _ := o.(*configv1.Key)
	return k
}

// mayTouchKey decides on a key of the tenant. Members change only their own, and nobody has bodies kept.
func (p *plan) mayTouchKey(object, stored *configv1.Key) error {
	c := p.caller
	if c.OwnKeys && stored != nil && stored.GetOwner() != c.Name {
		return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: a member changes only their own keys.")
	}
	if object == nil {
		return nil
	}
	if !proto.Equal(object.GetBodies(), stored.GetBodies()) {
		return operatorsOnly("bodies", c.Tenant)
	}
	if stored != nil {
		return nil
	}
	_, keys := p.server.config.Plane.Keys()
	all, own := 0, 0
	for _, o := range keys {
		k, ok := o.(*configv1.Key)
		if !ok || k.GetOrganization() != c.Tenant.Organization {
			continue
		}
		all++
		if c.sees(k) && k.GetOwner() == c.Name {
			own++
		}
	}
	if all >= maxTenantKeys || c.OwnKeys && own >= maxOwnKeys {
		return tooMany("keys")
	}
	return nil
}

// mayTouchProject decides on a project. Those who are restricted to one do not change its limits.
func (p *plan) mayTouchProject(object, stored configv1.Object) error {
	if p.caller.Tenant.Project != "" {
		return notForTenant(p.caller.Tenant)
	}
	now, _ := object.(*configv1.Project)
	was, _ := stored.(*configv1.Project)
	switch {
	case now == nil:
		return nil
	case !proto.Equal(now.GetBodies(), was.GetBodies()):
		return operatorsOnly("bodies", p.caller.Tenant)
	case !proto.Equal(now.GetQuotas(), was.GetQuotas()):
		return operatorsOnly("quotas", p.caller.Tenant)
	case was != nil:
		return nil
	}
	if p.inOrganization(configv1.KindOf(now)) >= maxTenantProjects {
		return tooMany("projects")
	}
	return nil
}

// inOrganization returns how many objects of a kind are of the caller's organization, or of a project of it.
func (p *plan) inOrganization(kind configv1.Kind) (n int) {
	all := Principal{Tenant: Tenant{Organization: p.caller.Tenant.Organization}}
	for _, e := range p.before.Entries {
		if e.Kind.Name == kind.Name && e.Object != nil && all.sees(e.Object) {
			n++
		}
	}
	return n
}

// mayTouchAccount decides on an account, which must have no rights outside the tenant.
func (p *plan) mayTouchAccount(object, stored configv1.Object) error {
	for _, o := range []configv1.Object{object, stored} {
		a, ok := o.(*configv1.Account)
		if !ok {
			continue
		}
		outside := slices.ContainsFunc(a.GetMemberships(), func(m *configv1.Membership) bool {
			return !p.caller.hasMembership(m)
		})
		if outside || a.GetRole() != configv1.Role_ROLE_UNSPECIFIED || a.GetReadBodies() || a.GetBreakGlass() ||
			a.GetProvisioning() != nil {
			return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: the account %s has rights outside %s.",
				a.GetName(), p.caller.Tenant)
		}
	}
	if was := asAccount(stored); object == nil && was.GetDisabled() && was.GetIdentity() != nil {
		return operatorsOnly("disabled", p.caller.Tenant) // the next sign-in would make an account that is not
	}
	if object != nil && stored == nil && p.inOrganization(configv1.KindOf(object)) >= maxTenantAccounts {
		return tooMany("accounts")
	}
	return nil
}

func operatorsOnly(field string, t Tenant) error {
	return openai.CodeInsufficientPermissions.On(field, "You have insufficient permissions for this operation: only an operator of the gateway changes %s; your rights are within %s.",
		field, t)
}

func tooMany(what string) error {
	return openai.CodeInsufficientPermissions.New("You have as many %s as you may make. Delete one, or ask an operator of the gateway.",
		what)
}

// seesTenant reports whether what is of an organization and a project is the caller's to see.
func seesTenant(ctx context.Context, organization, project string) bool {
	p, _ := PrincipalOf(ctx)
	return p.Tenant.Has(organization, project)
}
