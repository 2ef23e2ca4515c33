package config

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
)

// maxSaid is how many keys and tokens the audit log names in the entry of an account.
const maxSaid = 100

func accountKind() configv1.Kind { return configv1.KindOf((*configv1.Account)(nil)) }

// people are the accounts of a plan, with what follows from them: the keys and tokens that they have, and their roles.
type people struct{ *Plan }

func (p *Plan) people() people { return people{p} }

// moves returns what a plan does to accounts.
func (p people) moves() (all []accounts.Move) {
	renamed := map[string]bool{}
	for _, c := range p.writes {
		a := asAccount(c.Object)
		if a == nil {
			continue
		}
		stored := asAccount(p.stored(c.Kind, c.Name))
		if was := p.origin(a, stored); was != nil && was.GetName() != a.GetName() {
			renamed[was.GetName()] = true
			all = append(all, accounts.Move{Was: was, Now: a})
			if stored == nil {
				continue
			}
		}
		all = append(all, accounts.Move{Was: stored, Now: a})
	}
	for _, c := range p.writes {
		was := asAccount(p.stored(c.Kind, c.Name))
		if c.Kind.Name == accountKind().Name && c.Object == nil && was != nil && !renamed[c.Name] {
			all = append(all, accounts.Move{Was: was})
		}
	}
	return slices.DeleteFunc(all, func(m accounts.Move) bool {
		return !m.Concerns() || m.Was == nil && !p.hasKeys(m.Now)
	})
}

// hasKeys reports whether there are keys of an earlier account of a name.
func (p people) hasKeys(a *configv1.Account) bool {
	_, keys := p.service.options.Keys()
	for _, o := range keys {
		if k := asKey(o); k.GetOwner() == a.GetName() {
			return true
		}
	}
	return false
}

// followPeople has the keys and tokens of people follow from their accounts, whoever changed these.
func (p people) followPeople(ctx context.Context) error {
	moves := p.moves()
	if len(moves) == 0 {
		return nil
	}
	keys, err := p.service.options.Store.List(ctx, configv1.KeyKind())
	if err != nil {
		return err
	}
	owned := map[string][]configstore.Entry{}
	for _, e := range keys {
		if owner := asKey(e.Object).GetOwner(); owner != "" {
			owned[owner] = append(owned[owner], e)
		}
	}
	p.demands = append(p.demands, configstore.NoKeySince(p.before.Revision))
	for _, m := range moves {
		before := m.Was.GetName()
		if m.Was == nil {
			before = m.Now.GetName()
		}
		var said []string
		for _, e := range owned[before] {
			what, err := p.followKey(m, e)
			if err != nil {
				return err
			}
			if what != "" {
				said = append(said, what)
			}
		}
		ended, err := p.endTokens(m)
		if err != nil {
			return err
		}
		if said = append(said, ended...); len(said) > 0 {
			if more := len(said) - maxSaid; more > 0 { // each key has its own entry
				said = append(said[:maxSaid], fmt.Sprintf("and %d more", more))
			}
			p.say(before, m.Now.GetName(), "keys and tokens of "+before+": "+strings.Join(said, ", ")+"\n")
		}
	}
	return nil
}

// followKey plans what a move makes of a key, and says what it is.
func (p people) followKey(m accounts.Move, e configstore.Entry) (string, error) {
	if p.before.Find(e.Kind, e.Name) == nil {
		p.before.Entries = append(p.before.Entries, e)
	}
	was := asKey(p.Entry(e.Kind, e.Name).Object)
	if was == nil {
		return "", nil // the plan deletes it
	}
	of, _ := p.found(configv1.KindOf((*configv1.Organization)(nil)), was.GetOrganization()).(*configv1.Organization)
	successor := asAccount(p.found(accountKind(), of.GetSuccessor()))
	now := m.Key(was, of, successor, time.Now().Truncate(time.Second))
	if now == nil {
		return "", nil
	}
	if p.full {
		return "the key " + now.GetName() + " is left as it is, because etcd is full", nil
	}
	what := "the key " + now.GetName() + " goes on"
	switch {
	case now.GetDisabled() && !was.GetDisabled():
		what = "the key " + now.GetName() + " is disabled"
	case was.GetDisabled() && !now.GetDisabled():
		what = "the key " + now.GetName() + " is enabled again"
	case now.GetOwner() != was.GetOwner():
		what += ", and is of " + whose(now.GetOwner())
	}
	return what, p.follow(e.Kind, e.Name, now, asKey(p.stored(e.Kind, e.Name)))
}

func whose(owner string) string {
	if owner == "" {
		return "nobody"
	}
	return owner
}

// found returns an object as it is after the plan; nil if there is none.
func (p *Plan) found(kind configv1.Kind, name string) configv1.Object {
	if e := p.Entry(kind, name); e != nil {
		return e.Object
	}
	return nil
}

// endTokens plans to delete the tokens of somebody who has gone for good, and says which tokens lose rights.
func (p people) endTokens(m accounts.Move) (said []string, err error) {
	if m.Was == nil {
		return nil, nil
	}
	gone := m.Another()
	if gone {
		p.holders = append(p.holders, m.Was.GetName())
	}
	for _, t := range p.tokensOf(m.Was.GetName()) {
		tenant, scopes := authz.Tenant{Organization: t.GetOrganization(), Project: t.GetProject()}, authz.ScopesOfToken(t)
		switch {
		case gone:
			err = p.follow(configv1.KindOf(t), t.GetName(), nil, t)
			said = append(said, "the token "+t.GetName()+" is deleted")
		case len(authz.ScopesLeft(tenant, scopes, m.Now)) == 0:
			said = append(said, "the token "+t.GetName()+" is refused")
		case !slices.Equal(authz.ScopesLeft(tenant, scopes, m.Now), scopes):
			said = append(said, "the token "+t.GetName()+" has fewer scopes")
		}
		if err != nil {
			return nil, err
		}
	}
	return said, nil
}

// follow plans a change that follows from another. Whoever may make that one makes this one. An object of nil is
// deleted.
func (p *Plan) follow(kind configv1.Kind, name string, object, stored configv1.Object) error {
	change := adminapi.Change{Kind: kind.Name, Name: name, Action: adminapi.Updated}
	var shown configv1.Object
	if object == nil {
		change.Action = adminapi.Deleted
	} else {
		shown = redact.Object(object)
	}
	var err error
	if change.Diff, err = redact.Diff(stored, shown); err != nil {
		return err
	}
	c := configstore.Change{Kind: kind, Name: name, Object: object}
	of := configstore.Ref{Kind: kind.Name, Name: name}
	if i, ok := p.written[of]; ok {
		p.writes[i] = c
	} else {
		p.write(c)
		if p.followed == nil {
			p.followed = map[configstore.Ref]bool{}
		}
		p.followed[of] = true
	}
	for i := range p.Changes {
		if !p.planned(kind, name) {
			break
		}
		if p.Changes[i].Kind == kind.Name && p.Changes[i].Name == name {
			p.Changes[i] = change
			return nil
		}
	}
	p.change(change)
	return nil
}

// say has the audit log say something of the change of an account, which may be renamed.
func (p people) say(before, now, what string) {
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Kind == accountKind().Name && (c.Name == before || c.Name == now) {
			c.Diff = what + c.Diff
			return
		}
	}
}

// enables decides about the owner of a key that is enabled or disabled.
func (p people) enables(object, stored configv1.Object) {
	if k, was := asKey(object), asKey(stored); k != nil && was != nil {
		accounts.Enabled(k, was, asAccount(p.stored(accountKind(), was.GetOwner())), p.caller.Owner())
	}
}

// ownersOf returns the accounts that own keys.
func ownersOf(keys []configstore.Entry) (refs []Ref) {
	for _, e := range keys {
		if owner := asKey(e.Object).GetOwner(); owner != "" {
			refs = append(refs, Ref{accountKind(), owner})
		}
	}
	return refs
}

// checkKeyOwners refuses a new key whose owner has lost the right to have it meanwhile.
func (p people) checkKeyOwners() error {
	for _, c := range p.writes {
		k := asKey(c.Object)
		if k.GetOwner() == "" || p.stored(c.Kind, c.Name) != nil {
			continue
		}
		owner := p.before.Find(accountKind(), k.GetOwner())
		if owner == nil || !accounts.MayOwn(asAccount(owner.Object), k) {
			return openai.CodeInsufficientPermissions.New(
				"The key would be of %s, who cannot have it: the account is deleted or disabled, or has no right to make keys there.",
				k.GetOwner())
		}
		p.demands = append(p.demands, configstore.Unchanged(*owner))
	}
	return nil
}

// mayAsk reports whether somebody still has the right to make a change that they asked for.
func mayAsk(a *configv1.Account, w *approvalRequest) bool {
	tenants := []string{""}
	for _, m := range a.GetMemberships() {
		tenants = append(tenants, authz.Tenant{Organization: m.GetOrganization(), Project: m.GetProject()}.String())
	}
	return !a.Barred() && slices.ContainsFunc(tenants, func(tenant string) bool {
		p := authz.PrincipalOfAccount(a, tenant, "")
		return p.May(authz.WriteScope(w.kind())) && p.Sees(w.object)
	})
}
