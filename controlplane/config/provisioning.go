package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/controlplane/scim"
)

// People returns the objects that SCIM is about.
func (s *Service) People(ctx context.Context) ([]configv1.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	var all []configv1.Object
	for _, o := range []configv1.Object{(*configv1.IdentityProvider)(nil), (*configv1.IdentityGroup)(nil),
		(*configv1.Account)(nil)} {
		entries, err := s.options.Store.List(ctx, configv1.KindOf(o))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Object != nil {
				all = append(all, e.Object)
			}
		}
	}
	return all, nil
}

// Provision carries out what a SCIM client asked for.
func (s *Service) Provision(ctx context.Context, decide func([]configv1.Object) (scim.Change, error)) error {
	_, err := s.write(ctx, change{many: true}, func(p *Plan) error {
		c, err := decide(p.objects(nil))
		if err != nil {
			return err
		}
		for _, o := range c.Delete {
			if err := p.remove(Ref{configv1.KindOf(o), o.GetName()}); err != nil {
				return err
			}
		}
		for _, o := range c.Put {
			if err := p.put(o); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// followGroups has the roles of provisioned accounts follow from their groups, whoever changed these, their names or
// the mapping of the provider. A role that an author gives such an account has to be that one. Who cannot sign in any
// more because the provider is deleted has no rights, as if they had left.
func (p people) followGroups() error {
	if !slices.ContainsFunc(p.Changes, decidesRoles) {
		return nil
	}
	objects := p.objects(p.writes)
	providers, groups := map[string]*configv1.IdentityProvider{}, map[string]*configv1.IdentityGroup{}
	for _, o := range objects {
		switch o := o.(type) {
		case *configv1.IdentityProvider:
			providers[o.GetName()] = o
		case *configv1.IdentityGroup:
			groups[o.GetName()] = o
		}
	}
	changed := p.providersBefore()
	var errs []error
	for _, o := range objects {
		a, ok := o.(*configv1.Account)
		if !ok {
			continue
		}
		due := proto.CloneOf(a)
		switch {
		case p.isOrphan(a, changed, providers):
			due.Role, due.Memberships = configv1.Role_ROLE_UNSPECIFIED, nil
		case a.GetProvisioning() != nil:
			due.Role, due.Memberships = configv1.RightsOfProvisioned(providers[a.GetProvisioning().GetProvider()], groups, a)
		}
		if !proto.Equal(due, a) {
			errs = append(errs, p.giveRights(a, due))
		}
	}
	return errors.Join(errs...)
}

// isOrphan reports whether the plan takes the last IdentityProvider away through which somebody signs in: nobody
// would say any more that they have left. Whoever has a password signs in without one. An account that is prepared
// waits for the next one, and what the plan itself says of an account holds.
func (p people) isOrphan(a *configv1.Account, changed []*configv1.IdentityProvider,
	left map[string]*configv1.IdentityProvider) bool {
	if len(changed) == 0 || a.GetIdentity() == nil || a.GetBreakGlass() || a.GetPasswordHash() != "" ||
		a.GetProvisioning() == nil && (a.GetIdentity().GetSubject() == "" || p.planned(accountKind(), a.GetName())) {
		return false
	}
	admits := func(by *configv1.IdentityProvider) bool {
		if a.GetProvisioning() != nil {
			return a.IsProvisionedBy(by)
		}
		return configv1.SameIssuer(a.GetIdentity().GetIssuer(), by.GetIssuer())
	}
	return slices.ContainsFunc(changed, admits) && !slices.ContainsFunc(slices.Collect(maps.Values(left)), admits)
}

// providersBefore returns the providers that the plan changes or deletes, as they were.
func (p people) providersBefore() (all []*configv1.IdentityProvider) {
	for _, c := range p.writes {
		if was, ok := p.stored(c.Kind, c.Name).(*configv1.IdentityProvider); ok {
			all = append(all, was)
		}
	}
	return all
}

// decidesRoles reports whether a change may change the role of somebody who is provisioned.
func decidesRoles(c adminapi.Change) bool {
	return c.Action != adminapi.Unchanged &&
		slices.Contains([]string{"Account", "IdentityGroup", "IdentityProvider"}, c.Kind)
}

// giveRights plans to store an account with the rights of its groups.
func (p people) giveRights(a, changed *configv1.Account) error {
	kind := configv1.KindOf(a)
	if p.planned(kind, a.GetName()) {
		if changed.GetRole() == a.GetRole() {
			return configv1.Errors{{Object: configv1.Label(a), Field: "memberships",
				Message: "must be those that the groups of the person give"}}
		}
		return configv1.Errors{{Object: configv1.Label(a), Field: "role",
			Message: fmt.Sprintf("must be %s, which the groups of the person give", changed.GetRole())}}
	}
	if err := p.permission().mayWrite(changed, a); err != nil {
		return err
	}
	p.following = true
	defer func() { p.following = false }()
	return p.store(kind, changed, a, redact.Object(changed))
}
