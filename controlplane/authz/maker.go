package authz

import (
	"context"
	"errors"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
)

// asMaker returns the principal of a token with the scopes that its maker has now. A token has its own if it is not
// known who made it.
func (a *Authenticator) asMaker(ctx context.Context, token Principal) (Principal, error) {
	if token.Maker == "" {
		return token, nil
	}
	entry, err := a.Store.Get(ctx, configv1.KindOf((*configv1.Account)(nil)), token.Maker)
	if err != nil && !errors.Is(err, configstore.ErrNotFound) {
		return Principal{}, err
	}
	maker, _ := entry.Object.(*configv1.Account)
	if token.Scopes = ScopesLeft(token.Tenant, token.Scopes, maker); len(token.Scopes) > 0 {
		return token, nil
	}
	return Principal{}, openai.CodeInvalidAdminToken.New(
		"The token has ended with the account that made it: %s. Ask for a token that somebody else makes.",
		GoneWhy(token.Maker, maker))
}

// ScopesLeft returns those of a token's scopes that its maker, who may be nil, can give in the tenant of the token.
func ScopesLeft(tenant Tenant, scopes []Scope, maker *configv1.Account) (left []Scope) {
	if maker == nil || maker.Barred() {
		return nil
	}
	all := []Principal{{Scopes: ScopesOfAccount(maker)}}
	for _, m := range maker.GetMemberships() {
		// a member has only their own keys, and a token has none
		if m.GetRole() != configv1.Role_MEMBER && !tenant.IsAll() &&
			(Tenant{m.GetOrganization(), m.GetProject()}).Has(tenant.Organization, tenant.Project) {
			all = append(all, Principal{Scopes: TenantScopesOf(m.GetRole())})
		}
	}
	for _, scope := range scopes {
		if slices.ContainsFunc(all, func(p Principal) bool { return p.MayGive(scope) }) {
			left = append(left, scope)
		}
	}
	if slices.Contains(scopes, Everything) && !slices.Contains(left, Everything) {
		for _, p := range all { // what is left of everything
			left = append(left, slices.DeleteFunc(p.Scopes, func(s Scope) bool { return s == BodiesRead })...)
		}
	}
	return left
}

// GoneWhy says why somebody has no rights, or fewer than before.
func GoneWhy(name string, a *configv1.Account) string {
	switch {
	case a == nil:
		return "the account " + name + " does not exist any more"
	case a.Barred():
		return "the account " + name + " is disabled, or has no role any more"
	}
	return "the account " + name + " does not have these rights any more"
}

// ScopesOfToken returns the scopes that a token was made with.
func ScopesOfToken(t *configv1.AdminToken) (scopes []Scope) {
	for _, s := range t.GetScopes() {
		scopes = append(scopes, Scope(s))
	}
	return scopes
}
