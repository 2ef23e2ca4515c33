package config

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// visible returns an object as it is stored; nil if there is none, or the caller may not see it.
func (p *Plan) visible(of Ref) *configstore.Entry {
	if e := p.before.Find(of.Kind, of.Name); e != nil && p.caller.Sees(e.Object) {
		return e
	}
	return nil
}

// mayTouch returns the error of a principal who is restricted to a tenant and would change what is not theirs. Either
// object may be nil. What they may not see looks as if it were not there.
func (p permission) mayTouch(kind configv1.Kind, name string, object, stored configv1.Object) error {
	c := p.caller
	if c.Tenant.IsAll() || c.As == accounts.Person { // who changes a password is asked for the present one
		return nil
	}
	if p.before.Find(kind, name) != nil && !c.Sees(stored) {
		if object != nil { // a name that somebody else has
			return authz.NotForTenant(c.Tenant)
		}
		return fmt.Errorf("%s %s: %w", kind.Name, name, configstore.ErrNotFound)
	}
	if object != nil && !c.Sees(object) {
		return authz.NotForTenant(c.Tenant)
	}
	err := authz.NotForTenant(c.Tenant)
	switch kind.New().(type) {
	case *configv1.Key:
		err = p.mayTouchKey(asKey(object), asKey(stored))
	case *configv1.Project:
		err = p.mayTouchProject(object, stored)
	case *configv1.Account:
		err = p.mayTouchAccount(object, stored)
	}
	if err != nil || object == nil {
		return err
	}
	return p.mayHave(object, stored)
}

func asKey(o configv1.Object) *configv1.Key {
	k, _ := o.(*configv1.Key)
	return k
}

// mayTouchKey decides on a key of the tenant. Members change only their own, and nobody has bodies kept.
func (p permission) mayTouchKey(object, stored *configv1.Key) error {
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
	return nil
}

// mayTouchProject decides on a project. Those who are restricted to one do not change its limits.
func (p permission) mayTouchProject(object, stored configv1.Object) error {
	if p.caller.Tenant.Project != "" {
		return authz.NotForTenant(p.caller.Tenant)
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
	}
	return nil
}

// mayTouchAccount decides on an account, which must have no rights outside the tenant.
func (p permission) mayTouchAccount(object, stored configv1.Object) error {
	for _, o := range []configv1.Object{object, stored} {
		a, ok := o.(*configv1.Account)
		if !ok {
			continue
		}
		outside := slices.ContainsFunc(a.GetMemberships(), func(m *configv1.Membership) bool {
			return !p.caller.HasMembership(m)
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
	return nil
}

func operatorsOnly(field string, t authz.Tenant) error {
	return openai.CodeInsufficientPermissions.On(field, "You have insufficient permissions for this operation: only an operator of the gateway changes %s; your rights are within %s.",
		field, t)
}
