package config

import (
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
)

const (
	// maxTenantKeys is how many keys an organization can have if its people make them, in all its projects: who may make
	// projects and their admins has no more room by that. A member alone can make maxOwnKeys.
	maxTenantKeys = 10_000
	maxOwnKeys    = 50
	// maxTenantProjects and maxTenantAccounts are the same for projects and accounts.
	maxTenantProjects = 1000
	maxTenantAccounts = 10_000
	// maxTenantBytes is how large all these objects are together. Each process of the gateway has them in memory.
	maxTenantBytes = 32 << 20
)

// holdings are what an organization has, and what the plan adds to it.
type holdings struct {
	objects map[string]int // by kind
	own     int            // keys that the caller has made
	bytes   int
}

// mayHave returns the error of a caller who is restricted to a tenant and would make more than an organization can
// have, in this change and in those before it. Stored may be nil.
func (p permission) mayHave(object, stored configv1.Object) error {
	more := size(object) - size(stored)
	if stored != nil && more <= 0 {
		return nil
	}
	has, kind := p.holdings(), configv1.KindOf(object).Name
	if stored == nil {
		_, isKey := object.(*configv1.Key)
		most := map[string]int{"Key": maxTenantKeys, "Project": maxTenantProjects, "Account": maxTenantAccounts}[kind]
		if has.objects[kind] >= most || isKey && p.caller.OwnKeys && has.own >= maxOwnKeys {
			return tooMany(configv1.KindOf(object).Plural)
		}
	}
	if has.bytes+more > maxTenantBytes {
		return openai.CodeInsufficientPermissions.New("Your organization has as many keys, projects and accounts as it may have: they are larger than %d MiB together. Delete some, or ask an operator of the gateway.",
			maxTenantBytes>>20)
	}
	if has.bytes += more; stored == nil {
		has.add(object, p.caller)
	}
	return nil
}

// holdings returns what the caller's organization has. It is read once.
func (p permission) holdings() *holdings {
	if p.has != nil {
		return p.has
	}
	p.has = &holdings{objects: map[string]int{}}
	all := authz.Principal{Tenant: authz.Tenant{Organization: p.caller.Tenant.Organization}}
	count := func(o configv1.Object) {
		p.has.bytes += size(o)
		p.has.add(o, p.caller)
	}
	_, keys := p.service.options.Keys()
	for _, o := range keys {
		if k := asKey(o); k != nil && k.GetOrganization() == all.Tenant.Organization {
			count(k)
		}
	}
	for _, e := range p.before.Entries {
		switch o := e.Object.(type) {
		case *configv1.Project, *configv1.Account:
			if all.Sees(o) {
				count(o)
			}
		}
	}
	return p.has
}

func (h *holdings) add(o configv1.Object, caller authz.Principal) {
	h.objects[configv1.KindOf(o).Name]++
	if k := asKey(o); k != nil && caller.Sees(k) && k.GetOwner() == caller.Name {
		h.own++
	}
}

func size(o configv1.Object) int {
	if o == nil {
		return 0
	}
	return proto.Size(o)
}

func tooMany(what string) error {
	return openai.CodeInsufficientPermissions.New("You have as many %s as you may make. Delete one, or ask an operator of the gateway.",
		what)
}
