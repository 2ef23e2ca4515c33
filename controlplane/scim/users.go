package scim

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/internal/id"
)

// readUser sets what a client says of a person, whole: of an account that is new, or replaced. It ignores attributes
// that the gateway has no use for.
func readUser(a *configv1.Account, said attributes) (err error) {
	p := a.GetProvisioning()
	if p.UserName, err = textOf("userName", said["username"]); err != nil {
		return err
	}
	if p.ExternalId, err = textOf("externalId", said["externalid"]); err != nil {
		return err
	}
	if said["active"] != nil { // left out, who is deactivated stays so
		active, err := boolOf("active", said["active"])
		if err != nil {
			return err
		}
		p.Inactive = !active
	}
	a.DisplayName, err = displayName(said)
	return err
}

// displayName returns the name that a person is shown with. Okta's default is to send its parts.
func displayName(said attributes) (string, error) {
	display, err := textOf("displayName", said["displayname"])
	if err != nil || display != "" || said["name"] == nil {
		return display, err
	}
	name, err := foldedOf("name", said["name"])
	if err != nil {
		return "", err
	}
	var parts []string
	for _, part := range []string{"formatted", "givenname", "familyname"} {
		s, err := textOf("name."+part, name[part])
		if err != nil {
			return "", err
		}
		if part == "formatted" && s != "" {
			return s, nil
		}
		parts = append(parts, s)
	}
	return strings.TrimSpace(strings.Join(parts, " ")), nil
}

// patchedUser changes one attribute of a person.
func patchedUser(a *configv1.Account, o operation) (err error) {
	p := a.GetProvisioning()
	if o.op == "remove" {
		o.value = nil
	}
	switch o.name {
	case "id", "schemas", "meta", "groups":
		return errReadOnly(o.name)
	case "username", "externalid", "displayname", "active":
		if o.isPart() {
			return errPath(o.path.String())
		}
	}
	switch o.name {
	case "username":
		p.UserName, err = textOf("userName", o.value)
	case "externalid":
		p.ExternalId, err = textOf("externalId", o.value)
	case "displayname":
		a.DisplayName, err = textOf("displayName", o.value)
	case "active":
		if o.op == "remove" {
			return errReadOnly("active") // a default would let somebody in again
		}
		var active bool
		active, err = boolOf("active", o.value)
		p.Inactive = !active
	}
	return err
}

// rename has an account follow its userName, and returns what is to be deleted.
func (d *directory) rename(a *configv1.Account) ([]configv1.Object, error) {
	name, err := accountName(a.GetProvisioning().GetUserName())
	if err != nil {
		return nil, err
	}
	if name == a.GetName() {
		return nil, nil
	}
	was, there := d.accounts[a.GetName()], d.accounts[name]
	switch {
	case !d.mayTake(name):
		return nil, errTaken
	case accounts.Find(there, a.GetIdentity()).Rest(there).GetDisabled():
		return nil, taken("The account with this userName is disabled here. An owner of the gateway can enable or delete it.")
	case was.GetDisabled():
		return nil, bad("mutability", "The account is disabled here, and keeps its name. An owner of the gateway can enable or delete it.")
	case was.GetPasswordHash() != "":
		return nil, bad("mutability", "The account has a password, with which it cannot be renamed. An owner can delete it.")
	}
	a.Name = name
	return []configv1.Object{was}, nil
}

// accountName returns the name of the account of a userName.
func accountName(userName string) (string, error) {
	if userName == "" {
		return "", bad("invalidValue", "The attribute userName is required.")
	}
	name, err := configv1.AccountName(userName)
	if err != nil {
		return "", bad("invalidValue", "The attribute userName "+err.Error()+".")
	}
	return name, nil
}

var errTaken = taken("There is an account with this userName already, which this client does not take over. " +
	"An owner of the gateway can delete it, or set its identity to the issuer.")

// mayTake reports whether a person of the directory can have a name: it is free, or its account gives way.
func (d *directory) mayTake(name string) bool {
	there := d.accounts[name]
	return there.GetProvisioning() == nil &&
		accounts.Find(there, &configv1.Identity{Issuer: d.provider.GetIssuer()}) != accounts.Others
}

func createUser(c *call) (answer, error) {
	var made *configv1.Account
	newID := id.New("usr")
	err := c.write(func(d *directory) (Change, error) {
		said, err := textOf("userName", c.body["username"])
		if err != nil {
			return Change{}, err
		}
		name, err := accountName(said)
		if err != nil {
			return Change{}, err
		}
		if !d.mayTake(name) {
			return Change{}, errTaken
		}
		there, identity := d.accounts[name], &configv1.Identity{Issuer: d.provider.GetIssuer()}
		made = accounts.Find(there, identity).Rest(there)
		made.Name, made.Identity = name, identity
		made.Provisioning = &configv1.Provisioning{Provider: d.provider.GetName(), Id: newID}
		if err := readUser(made, c.body); err != nil {
			return Change{}, err
		}
		_, err = d.rename(made) // it checks the name
		return d.put(made), err
	})
	if err != nil {
		return answer{}, err
	}
	a, err := c.one((*directory).users, newID)
	a.status = http.StatusCreated
	a.location = Path + "Users/" + newID
	return a, err
}

// changeUser changes a person, and answers with the outcome.
func (c *call) changeUser(change func(*configv1.Account) error) (answer, error) {
	err := c.write(func(d *directory) (Change, error) {
		was := d.people[c.PathValue("id")]
		if was == nil {
			return Change{}, notFound(c.PathValue("id"))
		}
		a := proto.CloneOf(was)
		if err := change(a); err != nil {
			return Change{}, err
		}
		deleted, err := d.rename(a)
		changed := d.put(a)
		changed.Delete = deleted
		return changed, err
	})
	if err != nil {
		return answer{}, err
	}
	return c.one((*directory).users, c.PathValue("id"))
}

func replaceUser(c *call) (answer, error) {
	return c.changeUser(func(a *configv1.Account) error { return readUser(a, c.body) })
}

func patchUser(c *call) (answer, error) {
	all, err := operations(c.body, userSchema)
	if err != nil {
		return answer{}, err
	}
	return c.changeUser(func(a *configv1.Account) error {
		for _, o := range all {
			if err := patchedUser(a, o); err != nil {
				return err
			}
		}
		return nil
	})
}

func deleteUser(c *call) (answer, error) {
	return answer{}, c.write(func(d *directory) (Change, error) {
		a := d.people[c.PathValue("id")]
		if a == nil {
			return Change{}, notFound(c.PathValue("id"))
		}
		if barred := accounts.Released(a); barred != nil {
			return Change{Put: []configv1.Object{barred}}, nil
		}
		return Change{Delete: []configv1.Object{a}}, nil
	})
}
