package authz

import (
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
	case *configv1.TokenIssuer, *configv1.CertificateIssuer: // they let tokens and certificates act as keys
		return []Scope{KeysWrite}
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
	case *configv1.IdentityGroup: // its name decides roles, also of who comes into it later
		return []Scope{Everything}
	case *configv1.Retention: // it deletes the audit log
		return []Scope{Everything}
	case *configv1.ApprovalRule: // it bounds what everybody else may do alone
		return []Scope{Everything}
	case *configv1.AuditSink: // it gets what everybody does, and is evidence against everybody
		return []Scope{Everything}
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
func ReadScope(kind configv1.Kind) Scope {
	switch kind.New().(type) {
	case *configv1.Key:
		return KeysRead
	case *configv1.Account, *configv1.AdminToken, *configv1.IdentityProvider, *configv1.IdentityGroup,
		*configv1.TokenIssuer, *configv1.CertificateIssuer:
		return AdminsRead
	}
	return ConfigRead
}

// WriteScope returns the scope that writing objects of a kind takes.
func WriteScope(kind configv1.Kind) Scope {
	switch kind.New().(type) {
	case *configv1.Key:
		return KeysWrite
	case *configv1.Account, *configv1.AdminToken, *configv1.IdentityProvider, *configv1.IdentityGroup,
		*configv1.TokenIssuer, *configv1.CertificateIssuer:
		return AdminsWrite
	case *configv1.AuditSink, *configv1.Retention, // one gets what everybody does, the other deletes it
		*configv1.ApprovalRule: // it bounds what everybody else may do alone
		return Everything
	}
	return ConfigWrite
}
