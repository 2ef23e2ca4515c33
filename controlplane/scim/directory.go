package scim

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Schemas of the resources.
const (
	userSchema  = "urn:ietf:params:scim:schemas:core:2.0:User"
	groupSchema = "urn:ietf:params:scim:schemas:core:2.0:Group"
)

// A directory is the part of the configuration that one provider's client sees. Accounts of other identities are
// not people in it.
type directory struct {
	provider *configv1.IdentityProvider
	accounts map[string]*configv1.Account       // all that there are, by name
	people   map[string]*configv1.Account       // by id
	groups   map[string]*configv1.IdentityGroup // by id
	members  map[string][]*configv1.Account     // by id of the group
}

func newDirectory(provider string, objects []configv1.Object) (*directory, error) {
	d := &directory{accounts: map[string]*configv1.Account{}, people: map[string]*configv1.Account{},
		groups: map[string]*configv1.IdentityGroup{}, members: map[string][]*configv1.Account{}}
	for _, o := range objects {
		switch o := o.(type) {
		case *configv1.IdentityProvider:
			if o.GetName() == provider {
				d.provider = o
			}
		case *configv1.IdentityGroup:
			if o.GetProvider() == provider {
				d.groups[o.GetName()] = o
			}
		case *configv1.Account:
			d.accounts[o.GetName()] = o
		}
	}
	if d.provider == nil {
		return nil, &Error{Status: http.StatusForbidden, Detail: "The identity provider of this token does not exist."}
	}
	for _, name := range slices.Sorted(maps.Keys(d.accounts)) {
		a := d.accounts[name]
		if !a.IsProvisionedBy(d.provider) {
			continue
		}
		d.people[a.GetProvisioning().GetId()] = a
		for _, g := range a.GetProvisioning().GetGroups() {
			d.members[g] = append(d.members[g], a)
		}
	}
	return d, nil
}

// A resource is one as the client sees it.
type resource map[string]any

// users returns everybody, by id.
func (d *directory) users() map[string]func() resource {
	all := map[string]func() resource{}
	for id, a := range d.people {
		all[id] = func() resource { return d.user(a) }
	}
	return all
}

// groupList returns all groups, by id.
func (d *directory) groupList() map[string]func() resource {
	all := map[string]func() resource{}
	for id, g := range d.groups {
		all[id] = func() resource { return d.group(g) }
	}
	return all
}

func (d *directory) user(a *configv1.Account) resource {
	p := a.GetProvisioning()
	groups := []any{}
	for _, id := range p.GetGroups() {
		if g := d.groups[id]; g != nil { // an owner can delete it
			groups = append(groups, map[string]any{"value": id, "display": g.GetDisplayName(),
				"$ref": Path + "Groups/" + id, "type": "direct"})
		}
	}
	r := newResource("User", userSchema, p.GetId(), a.GetCreatedAt())
	r["userName"], r["active"], r["groups"] = p.GetUserName(), !p.GetInactive(), groups
	r.setText("displayName", a.GetDisplayName())
	r.setText("externalId", p.GetExternalId())
	return r
}

func (d *directory) group(g *configv1.IdentityGroup) resource {
	members := []any{}
	for _, a := range d.members[g.GetName()] {
		members = append(members, memberOf(a))
	}
	r := newResource("Group", groupSchema, g.GetName(), g.GetCreatedAt())
	r["displayName"], r["members"] = g.GetDisplayName(), members
	r.setText("externalId", g.GetExternalId())
	return r
}

func memberOf(a *configv1.Account) map[string]any {
	id := a.GetProvisioning().GetId()
	return map[string]any{"value": id, "$ref": Path + "Users/" + id, "type": "User"}
}

// folded returns the attributes by their names in lower case.
func (r resource) folded() map[string]any {
	all := map[string]any{}
	for name, value := range r {
		all[configv1.Fold(name)] = value
	}
	return all
}

func newResource(kind, schema, id string, created interface{ AsTime() time.Time }) resource {
	return resource{"schemas": []string{schema}, "id": id, "meta": map[string]any{"resourceType": kind,
		"created": created.AsTime().Format(time.RFC3339), "location": Path + kind + "s/" + id}}
}

// setText sets an attribute that is absent if it is empty.
func (r resource) setText(name, value string) {
	if value != "" {
		r[name] = value
	}
}

// put returns the change that stores accounts with the roles that their groups give.
func (d *directory) put(accounts ...*configv1.Account) Change {
	var c Change
	for _, a := range accounts {
		a.Role, a.Memberships = configv1.RightsOfProvisioned(d.provider, d.groups, a)
		a.PasswordHash = "" // left out, it stays
		c.Put = append(c.Put, a)
	}
	return c
}

// setMembers has a group, given by id, have those members and no others, and returns the accounts that it changed.
func (d *directory) setMembers(group string, ids map[string]bool) []*configv1.Account {
	var changed []*configv1.Account
	for _, id := range slices.Sorted(maps.Keys(d.people)) {
		a := d.people[id]
		if slices.Contains(a.GetProvisioning().GetGroups(), group) != ids[id] {
			a = proto.CloneOf(a)
			p := a.GetProvisioning()
			if ids[id] {
				p.Groups = append(p.Groups, group)
			} else {
				p.Groups = slices.DeleteFunc(p.Groups, func(g string) bool { return g == group })
			}
			changed = append(changed, a)
		}
	}
	return changed
}
