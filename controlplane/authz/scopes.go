package authz

import (
	"cmp"
	"context"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// RightsOf returns what an object lets its holder do with the admin API.
func RightsOf(o configv1.Object) []Scope {
	switch o := o.(type) {
	case *configv1.Account:
		scopes := ScopesOfAccount(o)
		for _, m := range o.GetMemberships() {
			scopes = append(scopes, TenantScopesOf(m.GetRole())...)
		}
		return scopes
	case *configv1.IdentityProvider:
		scopes := ScopesOf(o.GetDefaultRole())
		for _, r := range o.GetRoles() {
			if r.GetOrganization() != "" {
				scopes = append(scopes, TenantScopesOf(r.GetRole())...)
			} else {
				scopes = append(scopes, ScopesOf(r.GetRole())...)
			}
		}
		return scopes
	case *configv1.AdminToken:
		var scopes []Scope
		for _, s := range o.GetScopes() {
			scopes = append(scopes, Scope(s))
		}
		return scopes
	case nil:
		return nil
	}
	if gives := configv1.KindOf(o).Options.GetGives(); gives != "" {
		return []Scope{Scope(gives)}
	}
	return nil
}

// Needs returns the error of a principal that lacks a scope.
func Needs(ctx context.Context, scope Scope) error {
	if p, _ := PrincipalOf(ctx); p.May(scope) {
		return nil
	}
	return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation. Missing scopes: %s.", scope)
}

// NeedsKind is needs of a scope for objects of a kind.
func NeedsKind(ctx context.Context, kind configv1.Kind, scope Scope) error {
	if err := Needs(ctx, scope); err != nil {
		return err
	}
	if p, _ := PrincipalOf(ctx); !p.Tenant.IsAll() && !TenantKind(kind, scope) {
		return NotForTenant(p.Tenant)
	}
	return nil
}

// NeedsAny is needs of the first scope, unless the principal has one of the others.
func NeedsAny(ctx context.Context, scopes ...Scope) error {
	for _, s := range scopes[1:] {
		if Needs(ctx, s) == nil {
			return nil
		}
	}
	return Needs(ctx, scopes[0])
}

// ReadScope returns the scope that reading objects of a kind takes.
func ReadScope(kind configv1.Kind) Scope { return Scope(kind.Area() + ":read") }

// WriteScope returns the scope that writing objects of a kind takes.
func WriteScope(kind configv1.Kind) Scope {
	return Scope(cmp.Or(kind.Options.GetWriteScope(), kind.Area()+":write"))
}
