package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
)

// TestATenantMakesABoundedNumberOfObjects has an admin of a project make one more than the organization may have: that
// there are many projects, each with an admin, gives no more room.
func TestATenantMakesABoundedNumberOfObjects(t *testing.T) {
	for _, project := range []string{"", "p1"} {
		at := authz.Tenant{Organization: "acme", Project: project}
		for kind, c := range map[string]struct {
			most int
			make func(n int) configv1.Object
		}{
			"key": {maxTenantKeys, func(n int) configv1.Object {
				return &configv1.Key{Name: fmt.Sprint("key_", n), Organization: "acme", Project: fmt.Sprint("p", n%7)}
			}},
			"account": {maxTenantAccounts, func(n int) configv1.Object {
				return &configv1.Account{Name: fmt.Sprint("a", n), Memberships: []*configv1.Membership{
					{Organization: "acme", Project: fmt.Sprint("p", n%7), Role: configv1.Role_VIEWER}}}
			}},
			"project": {maxTenantProjects, func(n int) configv1.Object {
				return &configv1.Project{Name: fmt.Sprint("acme/p", n)}
			}},
		} {
			if kind == "project" && project != "" {
				continue // it is not theirs to make
			}
			p := &Plan{caller: authz.Principal{Tenant: at}, before: &configstore.Snapshot{}}
			keys := map[string]configv1.Object{}
			add := func(n int) configv1.Object {
				o := c.make(n)
				if keys[o.GetName()] = o; kind != "key" {
					p.before.Entries = append(p.before.Entries,
						configstore.Entry{Kind: configv1.KindOf(o), Name: o.GetName(), Object: o})
				}
				return o
			}
			may := p.permission()
			p.service = &Service{options: Options{Keys: func() (int64, map[string]configv1.Object) { return 1, keys }}}
			for n := range c.most - 1 {
				add(7 * n)
			}
			one := c.make(7*c.most + 1)
			require.NoError(t, may.mayTouch(configv1.KindOf(one), one.GetName(), one, nil), kind)
			add(7 * c.most)
			require.ErrorContains(t, may.mayTouch(configv1.KindOf(one), one.GetName(), one, nil), "as many "+kind+"s", kind)
			require.NoError(t, may.mayTouch(configv1.KindOf(one), one.GetName(), one, one), "a change of one that is there")
		}
	}
}
