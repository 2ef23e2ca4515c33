package queries

import (
	"cmp"
	"maps"
	"slices"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A left gathers what people have left behind.
type left struct {
	keys     []*configv1.Key
	accounts map[string]*configv1.Account
	tokens   []*configv1.AdminToken
}

// newLeft begins with the keys that somebody has, or has had, and that have not expired.
func newLeft(keys map[string]configv1.Object, now time.Time) *left {
	l := &left{accounts: map[string]*configv1.Account{}}
	for _, o := range keys {
		k, _ := o.(*configv1.Key)
		expired := k.GetExpiresAt() != nil && !k.GetExpiresAt().AsTime().After(now)
		if (k.GetOwner() != "" || k.GetLeft() != nil) && !expired {
			l.keys = append(l.keys, k)
		}
	}
	slices.SortFunc(l.keys, func(a, b *configv1.Key) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return l
}

func (l *left) add(entries []configstore.Entry) {
	for _, e := range entries {
		switch o := e.Object.(type) {
		case *configv1.Account:
			l.accounts[o.GetName()] = o
		case *configv1.AdminToken:
			l.tokens = append(l.tokens, o)
		}
	}
}

// leavers returns who has left what, by name.
func (l *left) leavers() (all []attention.Leaver) {
	by := map[string]*attention.Leaver{}
	of := func(name string) *attention.Leaver {
		if by[name] == nil {
			by[name] = &attention.Leaver{Account: name, Why: authz.GoneWhy(name, l.accounts[name])}
		}
		return by[name]
	}
	for _, k := range l.keys {
		name := cmp.Or(k.GetLeft().GetAccount(), k.GetOwner())
		owned := accounts.MayOwn(l.accounts[k.GetOwner()], k)
		if k.GetLeft() == nil && (owned || k.GetDisabled()) {
			continue
		}
		who := of(name)
		if at := k.GetLeft().GetAt(); at != nil && at.AsTime().After(who.Since) {
			who.Since = at.AsTime()
		}
		switch {
		case k.GetDisabled():
			who.Ended = append(who.Ended, k)
		case owned && k.GetOwner() != name:
			who.Handed = append(who.Handed, k)
		default:
			who.Kept = append(who.Kept, k)
		}
	}
	for _, t := range l.tokens {
		scopes, within := authz.ScopesOfToken(t), authz.Tenant{Organization: t.GetOrganization(), Project: t.GetProject()}
		if t.GetOwner() != "" && !slices.Equal(scopes, authz.ScopesLeft(within, scopes, l.accounts[t.GetOwner()])) {
			who := of(t.GetOwner())
			who.Tokens = append(who.Tokens, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	return all
}
