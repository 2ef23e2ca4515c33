package scim

import (
	"maps"
	"net/http"

	"github.com/scim2/filter-parser/v2"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/id"
)

// A groupDraft is a group as it is to be, and who is in it.
type groupDraft struct {
	directory *directory
	group     *configv1.IdentityGroup
	members   map[string]bool // by id
}

func (d *directory) draft(g *configv1.IdentityGroup) *groupDraft {
	draft := &groupDraft{d, proto.CloneOf(g), map[string]bool{}}
	for _, a := range d.members[g.GetName()] {
		draft.members[a.GetProvisioning().GetId()] = true
	}
	return draft
}

// change returns what stores the draft.
func (g *groupDraft) change() (Change, error) {
	name := g.group.GetDisplayName()
	if name == "" {
		return Change{}, bad("invalidValue", "The attribute displayName is required.")
	}
	for id, other := range g.directory.groups {
		if id != g.group.GetName() && configv1.Fold(other.GetDisplayName()) == configv1.Fold(name) {
			return Change{}, taken("There is a group with this displayName already.")
		}
	}
	g.directory.groups[g.group.GetName()] = g.group
	c := g.directory.put(g.directory.setMembers(g.group.GetName(), g.members)...)
	c.Put = append(c.Put, g.group)
	return c, nil
}

// read sets what a client says of a group, whole.
func (g *groupDraft) read(said attributes) (err error) {
	if g.group.DisplayName, err = textOf("displayName", said["displayname"]); err != nil {
		return err
	}
	if g.group.ExternalId, err = textOf("externalId", said["externalid"]); err != nil {
		return err
	}
	g.members = map[string]bool{}
	if said["members"] == nil {
		return nil
	}
	return g.add(said["members"])
}

// add adds members. The value of each is the id of a person.
func (g *groupDraft) add(value any) error {
	ids, err := memberIDs(value)
	for _, id := range ids {
		if g.directory.people[id] == nil {
			return bad("invalidValue", "There is no user with the id of a member, "+id+". Groups have only users as members.")
		}
		g.members[id] = true
	}
	return err
}

func memberIDs(value any) ([]string, error) {
	list, err := elementsOf("members", value)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range list {
		id, err := textOf("members.value", m["value"])
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// patch changes one attribute of a group.
func (g *groupDraft) patch(o operation) (err error) {
	switch o.name {
	case "id", "schemas", "meta":
		return errReadOnly(o.name)
	case "members":
		return g.patchMembers(o)
	case "displayname", "externalid":
		if o.isPart() {
			return errPath(o.path.String())
		}
	}
	if o.op == "remove" {
		o.value = nil
	}
	switch o.name {
	case "displayname":
		g.group.DisplayName, err = textOf("displayName", o.value)
	case "externalid":
		g.group.ExternalId, err = textOf("externalId", o.value)
	}
	return err
}

// patchMembers changes the members. To remove some, Okta names them in a filter
// (https://developer.okta.com/docs/api/openapi/okta-scim/guides/scim-20), and Entra ID in the value
// (https://learn.microsoft.com/entra/identity/app-provisioning/use-scim-to-provision-users-and-groups).
func (g *groupDraft) patchMembers(o operation) error {
	some := o.path.ValueExpression
	part := o.path.SubAttributeName() != "" || o.path.AttributePath.SubAttributeName() != ""
	if part || some != nil && o.op != "remove" {
		return errPath(o.path.String())
	}
	switch {
	case o.op == "add":
		return g.add(o.value)
	case o.op == "replace":
		g.members = map[string]bool{}
		if o.value == nil {
			return nil
		}
		return g.add(o.value)
	case some != nil:
		return g.removeMatching(some)
	case o.value != nil:
		ids, err := memberIDs(o.value)
		for _, id := range ids {
			delete(g.members, id)
		}
		return err
	}
	g.members = map[string]bool{}
	return nil
}

func (g *groupDraft) removeMatching(some filter.Expression) error {
	if _, err := matches(elements(), some, nil); err != nil {
		return err
	}
	maps.DeleteFunc(g.members, func(id string, _ bool) bool {
		ok, _ := matches(elements(), some, memberOf(g.directory.people[id])) // the error would have come above
		return ok
	})
	return nil
}

func createGroup(c *call) (answer, error) {
	newID := id.New("grp")
	err := c.write(func(d *directory) (Change, error) {
		g := d.draft(&configv1.IdentityGroup{Name: newID, Provider: d.provider.GetName()})
		if err := g.read(c.body); err != nil {
			return Change{}, err
		}
		return g.change()
	})
	if err != nil {
		return answer{}, err
	}
	a, err := c.one((*directory).groupList, newID)
	a.status = http.StatusCreated
	a.location = Path + "Groups/" + newID
	return a, err
}

func (c *call) changeGroup(change func(*groupDraft) error) error {
	return c.write(func(d *directory) (Change, error) {
		was := d.groups[c.PathValue("id")]
		if was == nil {
			return Change{}, notFound(c.PathValue("id"))
		}
		g := d.draft(was)
		if err := change(g); err != nil {
			return Change{}, err
		}
		return g.change()
	})
}

func replaceGroup(c *call) (answer, error) {
	if err := c.changeGroup(func(g *groupDraft) error { return g.read(c.body) }); err != nil {
		return answer{}, err
	}
	return c.one((*directory).groupList, c.PathValue("id"))
}

// patchGroup answers without the group, which may have many members, unless the client asks for attributes.
func patchGroup(c *call) (answer, error) {
	all, err := operations(c.body, groupSchema)
	if err != nil {
		return answer{}, err
	}
	err = c.changeGroup(func(g *groupDraft) error {
		for _, o := range all {
			if err := g.patch(o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || c.URL.Query().Get("attributes") == "" {
		return answer{}, err
	}
	return c.one((*directory).groupList, c.PathValue("id"))
}

func deleteGroup(c *call) (answer, error) {
	return answer{}, c.write(func(d *directory) (Change, error) {
		g := d.groups[c.PathValue("id")]
		if g == nil {
			return Change{}, notFound(c.PathValue("id"))
		}
		delete(d.groups, g.GetName())
		changed := d.put(d.setMembers(g.GetName(), nil)...)
		changed.Delete = []configv1.Object{g}
		return changed, nil
	})
}
