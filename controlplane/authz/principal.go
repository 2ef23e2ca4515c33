// Package authz decides who calls the admin API and what they may do: principals with their scopes, the tenants to
// which scopes are restricted, the bearer tokens by which callers are known, and the turns that they take.
//
// A scope alone is not enough: a principal of a tenant also has to see the object. Check both.
package authz

import (
	"context"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
)

// A Scope is a thing that callers of the API may do.
type Scope string

// Scopes.
const (
	ConfigRead  Scope = "config:read"
	ConfigWrite Scope = "config:write"
	KeysRead    Scope = "keys:read"
	KeysWrite   Scope = "keys:write"
	UsageRead   Scope = "usage:read"
	JobsRead    Scope = "jobs:read"
	JobsWrite   Scope = "jobs:write"
	AuditRead   Scope = "audit:read"
	StatusRead  Scope = "status:read"
	AdminsRead  Scope = "admins:read"  // accounts and tokens of administration
	AdminsWrite Scope = "admins:write" // likewise; it includes AdminsRead
	Playground  Scope = "playground"
	// BodiesRead shows kept bodies. Neither a role nor Everything includes it.
	BodiesRead   Scope = "bodies:read"
	BodiesDelete Scope = "bodies:delete"
	// Provision is the scope of one identity provider's SCIM client. Among roles, only the owner's includes it.
	Provision  Scope = "scim"
	Everything Scope = "*"
)

// ScopesOf returns what a role may do.
func ScopesOf(r configv1.Role) []Scope {
	read := []Scope{ConfigRead, KeysRead, UsageRead, JobsRead, AuditRead, StatusRead}
	switch r {
	case configv1.Role_OWNER:
		return []Scope{Everything}
	case configv1.Role_ADMIN:
		return append(read, ConfigWrite, KeysWrite, JobsWrite, Playground, AdminsRead, AdminsWrite)
	case configv1.Role_OPERATOR:
		return append(read, ConfigWrite, KeysWrite, JobsWrite, Playground)
	case configv1.Role_AUDITOR:
		return append(read, AdminsRead)
	case configv1.Role_VIEWER:
		return read
	}
	return nil
}

// ScopesOfAccount returns what an account may do.
func ScopesOfAccount(a *configv1.Account) []Scope {
	scopes := ScopesOf(a.GetRole())
	if a.GetReadBodies() {
		scopes = append(scopes, BodiesRead)
	}
	return scopes
}

// MayGive reports whether the principal may give somebody a scope. Whoever may do everything may also give the scope
// that shows bodies, which the audit log then says.
func (p Principal) MayGive(s Scope) bool { return p.May(s) || s == BodiesRead && p.May(Everything) }

// A Principal is who calls the API. It is immutable.
type Principal struct {
	// Name is the account's name, or the token's id. It is "root" for the token of the data directory.
	Name string
	// Role is the account's role in lower case, "token", or "identity provider".
	Role    string
	Scopes  []Scope
	Tenant  Tenant // the tenant that the scopes are restricted to
	OwnKeys bool   // of keys, only those that the principal has made may be changed
	Address string // that the call came from
	// Maker is the account that made the token; empty: not known.
	Maker string
	// Provider is the IdentityProvider whose SCIM client it is.
	Provider string
	// As is on whose behalf the principal writes accounts. Zero: it follows from the tenant.
	As accounts.Authority
}

// Authority returns on whose behalf the principal writes accounts.
func (p Principal) Authority() accounts.Authority {
	switch {
	case p.As != 0:
		return p.As
	case !p.Tenant.IsAll():
		return accounts.Tenant
	}
	return accounts.Operator
}

// PrincipalOfAccount returns the principal of an account that is signed in. An account without a role acts under one
// of its memberships: that of the tenant which is asked for, as "organization" or "organization/project", or else the
// first.
func PrincipalOfAccount(a *configv1.Account, tenant, address string) Principal {
	p := Principal{Name: a.GetName(), Role: strings.ToLower(a.GetRole().String()), Scopes: ScopesOfAccount(a),
		Address: address}
	if a.GetRole() != configv1.Role_ROLE_UNSPECIFIED && tenant == "" {
		return p
	}
	m := membershipOf(a, tenant)
	if m == nil {
		return Principal{Name: a.GetName(), Tenant: noTenant, Address: address}
	}
	p.Tenant = Tenant{m.GetOrganization(), m.GetProject()}
	p.Role, p.Scopes = strings.ToLower(m.GetRole().String())+" of "+p.Tenant.String(), TenantScopesOf(m.GetRole())
	p.OwnKeys = m.GetRole() == configv1.Role_MEMBER
	return p
}

// Owner returns the name under which the principal owns keys: that of an account.
func (p Principal) Owner() string {
	if p.Role == RoleToken || p.Name == NameRoot {
		return ""
	}
	return p.Name
}

// Person returns the account that the principal is, or that made the token; empty: not known.
func (p Principal) Person() string {
	if p.Role == RoleToken {
		return p.Maker
	}
	return p.Owner()
}

// IsPerson reports whether the principal is an account that is signed in. A token and a file can be in anybody's
// hands.
func (p Principal) IsPerson() bool { return p.Owner() != "" && p.Provider == "" }

// May reports whether the principal may do something.
func (p Principal) May(s Scope) bool {
	return slices.Contains(p.Scopes, s) || s == AdminsRead && slices.Contains(p.Scopes, AdminsWrite) ||
		s != BodiesRead && slices.Contains(p.Scopes, Everything)
}

// roleToken is the role of a token. nameRoot is the name of the data directory's token.
const (
	RoleToken = "token"
	NameRoot  = "root"
)

type principalKey struct{}

// WithPrincipal returns a context in which p calls the API: the handler takes it in place of a bearer token. The
// dashboard checks a session and then calls the same methods with it.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf returns who calls the API.
func PrincipalOf(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
