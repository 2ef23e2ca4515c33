package audit

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
)

// Actions in the place of an update that brought an object into a tenant, or out of it.
const (
	actionJoin  = "join"
	actionLeave = "leave"
)

// ViewsOf returns how tenants see the entry of something that is of all of them.
func ViewsOf(actor authz.Principal, tenants []authz.Tenant) []adminapi.AuditTenant {
	var views []adminapi.AuditTenant
	for _, t := range tenants {
		views = append(views, adminapi.AuditTenant{Tenant: t.String(),
			Inside: !actor.Tenant.IsAll() && t.Has(actor.Tenant.Organization, actor.Tenant.Project)})
	}
	return views
}

// ViewsOfPrincipal returns who sees an entry about the principal, such as that they signed in: the tenant under which
// they act.
func ViewsOfPrincipal(p authz.Principal) []adminapi.AuditTenant {
	return ViewsOf(p, authz.Within(p.Tenant.Organization, p.Tenant.Project))
}

// ViewsOfChange returns how tenants see the entry of a change. Either object may be nil. A tenant that sees nothing of
// the change has no view. One that sees the object in part, or only before or only after it, has its own difference.
func ViewsOfChange(actor authz.Principal, before, after configv1.Object) ([]adminapi.AuditTenant, error) {
	tenants := slices.Concat(authz.SeersOf(before), authz.SeersOf(after))
	slices.SortFunc(tenants, func(a, b authz.Tenant) int { return strings.Compare(a.String(), b.String()) })
	var views []adminapi.AuditTenant
	for _, v := range ViewsOf(actor, slices.Compact(tenants)) {
		t := authz.Tenant{}
		t.Organization, t.Project = authz.SplitProject(v.Tenant)
		was, is := seenWithin(t, before), seenWithin(t, after)
		if same(was, is) {
			continue
		}
		switch {
		case was == nil && before != nil:
			v.Action = actionJoin
		case is == nil && after != nil:
			v.Action = actionLeave
		}
		if v.Partial = !same(was, before) || !same(is, after); v.Partial {
			var err error
			if v.Diff, err = redact.Diff(was, is); err != nil {
				return nil, err
			}
		}
		views = append(views, v)
	}
	return views, nil
}

// seenWithin returns what people of a tenant see of an object, or nil.
func seenWithin(t authz.Tenant, o configv1.Object) configv1.Object {
	p := authz.Principal{Tenant: t}
	if o == nil || !p.Sees(o) {
		return nil
	}
	return p.Shown(o)
}

// same reports whether two objects, which may be nil, are equal.
func same(a, b configv1.Object) bool {
	if a == nil || b == nil {
		return a == b
	}
	return proto.Equal(a, b)
}

// shownTo returns an entry as an answer has it, which is for people of a tenant if that is given.
func shownTo(tenant string, e adminapi.AuditEntry) (shown adminapi.AuditEntry, ok bool) {
	views := e.Tenants
	if e.Tenants = nil; tenant == "" {
		return e, true
	}
	i := slices.IndexFunc(views, func(v adminapi.AuditTenant) bool { return v.Tenant == tenant })
	if i < 0 {
		return adminapi.AuditEntry{}, false
	}
	return e.For(views[i]), true
}
